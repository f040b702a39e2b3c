package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/protocol/collective"
)

func TestCandidatesAreAllThatFit(t *testing.T) {
	someDefaults(t)
	for _, c := range []struct {
		op       collective.Op
		p, bytes int
		want     string
	}{
		{collective.AllReduce, 4, 8, "binomial hub doubling rabenseifner"},
		{collective.AllReduce, 6, 8, "binomial hub doubling"},
		{collective.AllReduce, 6, 128<<10 - 8, "binomial hub doubling"},
		{collective.AllReduce, 6, 128 << 10, "binomial binomial/64KiB hub hub/64KiB doubling"},
		{collective.Broadcast, 2, 1 << 20, "binomial binomial/64KiB binomial/256KiB flat flat/64KiB flat/256KiB scatter-all-gather"},
		{collective.AllToAll, 3, 1 << 20, "direct hub bruck"},
	} {
		var got []string
		for _, one := range newTuneCell(collective.Default, c.op, c.p, int64(c.bytes)).candidates {
			got = append(got, one.String())
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%v among %d, %d bytes: %v, want %v", c.op, c.p, c.bytes, got, want)
		}
	}
}

// fakeTuner is a tuner whose processes take what us says.
func fakeTuner(t *testing.T, rounds int, us func(r collective.Rule, l benchCell) float64) (tuner *collectiveTuner, calls *[]string) {
	cmd := &tuneCmd{L: 2, O: 1, Algo: all, Margin: true}
	cmd.tuneCollectivesFlags = tuneCollectivesFlags{
		Collectives: true, Transport: "unix", Op: []string{"allreduce"}, Size: []string{"8B", "64KiB"}, N: []int{4, 4}, Rounds: &rounds,
	}
	tuner, err := cmd.collectiveTuner(nil)
	if err != nil {
		t.Fatal(err)
	}
	calls = new([]string)
	tuner.run = func(rules []byte, loops []benchCell, done func(int)) error {
		table, err := collective.ParseTable(rules)
		if err != nil || len(table) != 1 {
			t.Fatalf("rules %s: %v", rules, err)
		}
		call := ""
		for i := range loops {
			l := &loops[i]
			rule := table.Choose(collective.Spec{Op: collective.AllReduce, P: l.Processes}, int64(l.Bytes))
			l.Median = us(rule, *l)
			call += fmt.Sprint(rule.Algorithm, " ", sizeText(l.Bytes), " ")
			done(i + 1)
		}
		*calls = append(*calls, strings.TrimSpace(call))
		return nil
	}
	return tuner, calls
}

func TestTunerTakesTurnsAndLeavesOutTheHopeless(t *testing.T) {
	someDefaults(t)
	tuner, calls := fakeTuner(t, 2, func(r collective.Rule, l benchCell) float64 {
		switch {
		case r.Algorithm == collective.Rabenseifner && l.Bytes == 8:
			return 41
		case r.Algorithm == collective.Hub: // the default for 8 bytes
			return 100
		}
		return 10
	})
	last := 0
	if err := tuner.measureAll(func(n int) {
		if n < last {
			t.Errorf("%d measurements are done, after %d", n, last)
		}
		last = n
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"binomial 8B binomial 64KiB", "hub 8B hub 64KiB", "doubling 8B doubling 64KiB", "rabenseifner 8B rabenseifner 64KiB",
		"rabenseifner 64KiB", "doubling 8B doubling 64KiB", "hub 8B", "binomial 8B binomial 64KiB",
	}
	if !slices.Equal(*calls, want) {
		t.Errorf("measured %q, want %q", *calls, want)
	}
	if last != tuner.total() || last != 2*4*2 {
		t.Errorf("%d of %d measurements are done, want 16", last, tuner.total())
	}
}

func TestTunedRulesAreWrittenReadAndChosen(t *testing.T) {
	someDefaults(t)
	tuner, _ := fakeTuner(t, 1, func(r collective.Rule, l benchCell) float64 {
		if (r.Algorithm == collective.Doubling) == (l.Bytes == 8) {
			return 10
		}
		return 20
	})
	if err := tuner.measureAll(func(int) {}); err != nil {
		t.Fatal(err)
	}
	report := newTuneCollectivesReport(tuner)
	table, err := collective.ParseTable(rulesText(report.Rules))
	table = slices.Concat(collective.Default, table)
	if err != nil {
		t.Fatal(err)
	}
	for bytes, want := range map[int64]collective.Algorithm{8: collective.Doubling, 64 << 10: collective.Binomial} {
		if got := table.Choose(collective.Spec{Op: collective.AllReduce, P: 4}, bytes).Algorithm; got != want {
			t.Errorf("%d bytes: %v, want %v", bytes, got, want)
		}
	}
	for i, want := range []string{"doubling", "binomial"} {
		if m := report.Measured[i]; m.Chosen.Algorithm != want || m.Best.US != 10 || m.Ratio != m.Default.US/10 {
			t.Errorf("%+v, want %s chosen", m, want)
		}
	}
	if table, err := collective.ParseTable(rulesText(nil)); err != nil || len(table) > 0 {
		t.Errorf("no rules are read as %v, %v", table, err)
	}
}

func TestTunerNamesWhatFailed(t *testing.T) {
	someDefaults(t)
	tuner, _ := fakeTuner(t, 1, nil)
	tuner.run = func([]byte, []benchCell, func(int)) error { return errors.New("no luck") }
	const want = "allreduce by binomial among 4 processes: no luck"
	if err := tuner.measureAll(func(int) {}); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A task that dies at its 10th step of an operation dies only where there are so
// many: with a value in pieces, as the rules say.
func TestProcessesUseTheFileOfTheVariable(t *testing.T) {
	someDefaults(t)
	job := coppice.Job{Local: 2, Recovery: coppice.Report}
	sum := func(ctx context.Context, task *coppice.Task) error {
		_, err := coppice.AllReduce(ctx, task, make([]float64, 16), coppice.Sum)
		return err
	}
	pieces := collective.Rule{Op: collective.AllReduce, P: 2, Algorithm: collective.Binomial, Span: 8}
	for _, c := range []struct {
		rules collective.Table
		dies  bool
	}{
		{nil, false},
		{collective.Table{pieces}, true},
	} {
		file := filepath.Join(t.TempDir(), "rules.json")
		if err := os.WriteFile(file, rulesText(c.rules), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(tuningVariable, file)
		var failed *coppice.FailedError
		if err := job.Run(coppicetest.WithKills(t.Context(), "1@allreduce#1/10"), sum); errors.As(err, &failed) != c.dies {
			t.Errorf("%s: %v; dies: want %t", rulesText(c.rules), err, c.dies)
		}
	}
}
