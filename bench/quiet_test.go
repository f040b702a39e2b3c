package main

import (
	"strings"
	"testing"
	"time"
)

func TestDisturbanceIsWhatWeDidNotUse(t *testing.T) {
	a, err := parseUsage("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1\n")
	if err != nil {
		t.Fatal(err)
	}
	// 10 s more of all processors: 5 s used, 1 s of interrupts, 0.4 s taken.
	b, err := parseUsage("cpu  300 100 300 1160 0 50 50 40 0 0\n")
	if err != nil {
		t.Fatal(err)
	}
	b.own = 4 * time.Second
	d := between(a, b)
	if d.Others != 0.1 || d.Taken != 0.04 || !d.loud() {
		t.Errorf("%+v, loud %t; want 0.1, 0.04, true", d, d.loud())
	}
	b.own = 6 * time.Second // readings are coarse: ours may seem more than all
	if d := between(a, b); d.Others != 0 || d.loud() {
		t.Errorf("%+v, loud %t; want 0 others, false", d, d.loud())
	}
}

func TestUsageRefusesOtherText(t *testing.T) {
	for _, text := range []string{"", "cpu 1 2 3\n", "intr 1 2 3 4 5 6 7 8\n", "cpu 1 2 3 4 5 6 7 x\n"} {
		if u, err := parseUsage(text); err == nil {
			t.Errorf("%q: %+v", text, u)
		}
	}
}

func TestSummaryWarnsOfABusyMachine(t *testing.T) {
	for _, c := range []struct {
		d    *disturbance
		want string
		warn bool
	}{
		{nil, "unknown", false},
		{&disturbance{Others: 0.01}, "others used 1%", false},
		{&disturbance{Others: 0.5}, "others used 50%", true},
		{&disturbance{Taken: 0.5}, "took 50%", true},
	} {
		got := machine{Disturbance: c.d}.summary(3)
		if !strings.Contains(got, c.want) || strings.Contains(got, "NOT QUIET") != c.warn {
			t.Errorf("%+v: %q", c.d, got)
		}
	}
}
