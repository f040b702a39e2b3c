package main

import (
	"bufio"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/model"
)

// pairOf makes up what rank 0 measures with another, in every repeat the same:
// o = 2 µs, g = 3 µs, G = 1 ns, and L as given.
func pairOf(rank int, l float64) pairSamples {
	trip := 2 * (l + 2*2)
	p := model.Probe{
		RoundTrips: []model.RoundTrip{{Bytes: 8, Time: trip}, {Bytes: 1_000_008, Time: trip + 2*1000}},
		Bursts:     []model.Burst{{Messages: 16, Sent: 16 * 2, Answered: trip + 15*3}, {Messages: 64, Sent: 64 * 2, Answered: trip + 63*3}},
	}
	return pairSamples{Rank: rank, Repeats: slices.Repeat([]model.Probe{p}, probeRepeats)}
}

func reportOf(t *testing.T, cmd probeCmd, hosts []string, pairs ...pairSamples) *probeReport {
	t.Helper()
	measured, err := json.Marshal(pairs)
	if err != nil {
		t.Fatal(err)
	}
	var run launch.Report
	for rank, host := range hosts {
		run.Tasks = append(run.Tasks, launch.TaskReport{Rank: rank, Host: host})
	}
	report, err := cmd.report(measured, &run)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestProbeReportsWhatWasMeasured(t *testing.T) {
	r := reportOf(t, probeCmd{Rounds: 7}, make([]string, 1024), pairOf(1, 2), pairOf(300, 8), pairOf(600, 4))
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"L", r.L, 4}, // the median of 2, 8 and 4
		{"o", r.O, 2},
		{"g", r.Gap, 3},
		{"G", r.PerByte, 1},
		{"round trip", r.RoundTrip, 16},
		{"L of the first quarter", r.Low.L, 2},
		{"L of the last quarter", r.High.L, 8},
		{"L of the first pair", r.Pairs[0].L, 2},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s is %g, want %g", c.name, c.got, c.want)
		}
	}
	if r.Slowest != [2]int{0, 300} || r.Processes != 1024 || r.Rounds != 7 || r.Repeats != probeRepeats {
		t.Errorf("slowest pair %v of %d processes, %d repeats of %d rounds", r.Slowest, r.Processes, r.Repeats, r.Rounds)
	}
	// Sends every 3, received after 8: as o = 3, L = 2, or 4 and 3 in quarters.
	if r.Optimal.L != 3 || r.Optimal.O != 4 {
		t.Errorf("optimal tree for L=%d, o=%d; want L=3, o=4", r.Optimal.L, r.Optimal.O)
	}
	want, err := model.ChooseTree(model.LogGP{L: 4, O: 2, Gap: 3}, 1024)
	if err != nil {
		t.Fatal(err)
	}
	if r.Tree != want.Tree || len(r.Predictions) != len(want.All) {
		t.Errorf("tree %s of %d, want %s of %d", r.Tree, len(r.Predictions), want.Tree, len(want.All))
	}
}

func TestProbeNamesHosts(t *testing.T) {
	r := reportOf(t, probeCmd{hostFlags: hostFlags{Hosts: "a,b"}}, []string{"a", "b", "b"}, pairOf(1, 2), pairOf(2, 8))
	var text strings.Builder
	w := bufio.NewWriter(&text)
	r.write(w)
	w.Flush()
	if want := "slowest pair: 0–2 (a, b), round trip 24.00 µs\n"; !strings.Contains(text.String(), want) {
		t.Errorf("got\n%s\nwant %s", text.String(), want)
	}
	if r.Processors != 0 {
		t.Errorf("%d processors, of other hosts", r.Processors)
	}
}

func TestProbeRefusesGarbage(t *testing.T) {
	run := &launch.Report{Tasks: make([]launch.TaskReport, 2)}
	for name, measured := range map[string]string{
		"nothing":         "",
		"no JSON":         "rank 0 says hello",
		"no pairs":        "[]",
		"another's rank":  `[{"Rank":7,"Repeats":[{}]}]`,
		"no measurements": `[{"Rank":1,"Repeats":[{}]}]`,
	} {
		if _, err := (&probeCmd{}).report([]byte(measured), run); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// Every pair is another one, they are spread over all ranks, and all of them if so
// many are asked for.
func TestPartnersAreSpread(t *testing.T) {
	for _, c := range []struct {
		size, pairs int
		want        []int
	}{
		{2, 1, []int{1}},
		{4, 3, []int{1, 2, 3}},
		{9, 2, []int{1, 5}},
		{17, 4, []int{1, 5, 9, 13}},
		{10, 8, []int{1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		if got := partners(c.size, c.pairs); !slices.Equal(got, c.want) {
			t.Errorf("%d of %d: %v, want %v", c.pairs, c.size, got, c.want)
		}
	}
}
