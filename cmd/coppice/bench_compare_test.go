package main

import (
	"bufio"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestModesTakeTurns(t *testing.T) {
	cells := []benchCell{
		{Op: "broadcast", Bytes: 8, Processes: 2},
		{Op: "broadcast", Bytes: 1024, Processes: 2},
		{Op: "barrier", Processes: 2},
		{Op: "barrier", Processes: 4},
	}
	var calls []string
	var told int
	us := map[string]float64{"plain": 10, "replay": 12}
	got, err := takeTurns([]string{"plain", "replay"}, 3, cells, func(mode string, some []benchCell, done func(int)) error {
		calls = append(calls, fmt.Sprint(mode, some[0].Processes, len(some)))
		for i := range some {
			if some[i].Mode != mode {
				t.Errorf("mode %s in a job of %s", some[i].Mode, mode)
			}
			some[i].Median = us[mode] + float64(len(calls))
			done(i + 1)
		}
		return nil
	}, func(n int) {
		if n != told+1 {
			t.Errorf("%d measurements after %d", n, told)
		}
		told = n
	})
	if err != nil {
		t.Fatal(err)
	}
	turns := func(group string) (all []string) {
		for _, mode := range strings.Fields("plain replay replay plain plain replay") {
			all = append(all, mode+group)
		}
		return all
	}
	if want := slices.Concat(turns("2 2"), turns("2 1"), turns("4 1")); !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	first := got[0]
	if len(got) != len(cells) || told != 2*3*len(cells) || !slices.Equal(first.Rounds[1], []float64{14, 15, 18}) {
		t.Errorf("%d cells, %d measurements, the first %+v", len(got), told, first)
	}
}

func TestRatioIsThatOfMedians(t *testing.T) {
	c := comparedCell{Rounds: [2][]float64{{10, 20, 40}, {30, 22, 10}}}
	c.sumUp()
	if c.Medians != [2]float64{20, 22} || c.Ratio != 1.1 || c.Least != 0.25 || c.Most != 3 {
		t.Errorf("%+v", c)
	}
}

func TestComparisonNamesTheWorst(t *testing.T) {
	r := newBenchComparison([]comparedCell{
		{Op: "scan", Bytes: 8, Processes: 2, Ratio: 1},
		{Op: "gather", Bytes: 1024, Processes: 2, Ratio: 4},
		{Op: "barrier", Processes: 4, Ratio: 2},
	})
	r.Transport, r.Modes, r.Rounds = "unix", []string{"plain", "replay"}, 5
	if math.Abs(r.Mean-2) > 1e-9 {
		t.Errorf("mean %v, want 2", r.Mean)
	}
	var text strings.Builder
	w := bufio.NewWriter(&text)
	r.write(w)
	w.Flush()
	for _, want := range []string{
		"unix; rounds: 5; ratio: replay to plain\n", "plain µs  replay µs", "n = 2: geometric mean 2.00\nn = 4: geometric mean 2.00\n",
		"all: geometric mean 2.00; worst 4.00: gather 1KiB, n = 2\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}
