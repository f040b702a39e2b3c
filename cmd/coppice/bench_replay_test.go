package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/coppice-go/coppice"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol/collective"
)

func TestNobodySendsMoreThanItsLogIsExpectedToTake(t *testing.T) {
	for _, name := range benchCollectives {
		op, err := collective.ParseOp(name)
		if err != nil { // a barrier has no values
			continue
		}
		for _, p := range []int{2, 3, 4, 8, 33, 64} {
			for _, bytes := range []int{8, 1 << 10, 8 << 10, 1 << 20} {
				rule := collective.Default.Choose(collective.Spec{Op: op, P: p}, int64(bytes))
				spec := collective.Spec{Op: op, Algorithm: rule.Algorithm, P: p, Spans: 1}
				got, err := logp.Collective(spec, int64(bytes), 1, logp.Network{P: p, L: 2, O: 1})
				if err != nil {
					t.Fatal(err)
				}
				cell := benchCell{Op: name, Bytes: bytes, Processes: p}
				if float64(got.BytesMax) > cell.sent() {
					t.Errorf("%s of %d bytes among %d: %d bytes sent, %.0f expected", name, bytes, p, got.BytesMax, cell.sent())
				}
			}
		}
	}
}

func TestIterationsFitInALog(t *testing.T) {
	for _, c := range []struct {
		op                  string
		bytes, n            int
		iterations          int
		fewer, fits, change bool
	}{
		{"broadcast", 8, 2, 1000, true, true, false},
		{"broadcast", 8, 2, 1000, false, true, false},
		{"scatter", 1 << 20, 8, 1000, true, true, true},
		{"scatter", 1 << 20, 8, 1000, false, false, false},
		{"scatter", 1 << 30, 8, 1, true, false, false},
		{"barrier", 0, 2, 100_000, true, true, false},
	} {
		cell := benchCell{Op: c.op, Bytes: c.bytes, Processes: c.n, Warmup: 1, Iterations: c.iterations}
		err := cell.fitLog(c.fewer)
		if (err == nil) != c.fits || (cell.Iterations != c.iterations) != c.change {
			t.Errorf("%+v: %v, then %d iterations", c, err, cell.Iterations)
		}
		if c.fits && float64(cell.Warmup+cell.Iterations)*cell.sent() > logPart*benchLogBytes {
			t.Errorf("%+v: %d iterations do not fit", c, cell.Iterations)
		}
	}
}

func TestJobsAreAsLongAsTheirLog(t *testing.T) {
	half := benchCell{Op: "scatter", Bytes: 1 << 20, Processes: 2}
	half.Iterations = int(0.4 / half.logShare())
	other := half
	other.Processes = 3
	cells := []benchCell{half, half, half, other}
	for mode, want := range map[string]int{plainMode: 3, replayMode: 2} {
		if got := (&benchCmd{Mode: mode}).oneJob(cells); got != want {
			t.Errorf("mode %s: %d cells in one job, want %d", mode, got, want)
		}
	}
	half.Iterations *= 10
	if got := (&benchCmd{Mode: replayMode}).oneJob([]benchCell{half, half}); got != 1 {
		t.Errorf("%d cells that are too large in one job, want 1", got)
	}
}

// A log that was given up costs nothing any more: figures of that are wrong.
func TestALogGivenUpMakesNoFigures(t *testing.T) {
	for bytes, want := range map[int]string{8: "", 64 << 10: "no figures of broadcast: the library has logged an error"} {
		how := benchHow{Mode: replayMode}
		watch := newLogWatch(slog.NewTextHandler(io.Discard, logLevel))
		job := how.job(watch)
		job.Local, job.LogBytes = 2, 32<<10
		var out strings.Builder
		err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
			return benchTask(ctx, task, []benchloop.Job{{Op: "broadcast", Bytes: bytes, Iterations: 3}}, how, watch, &out)
		})
		if want == "" && (err != nil || out.Len() == 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0) {
			t.Errorf("%d bytes: error %v, want %q; figures %q", bytes, err, want, out.String())
		}
	}
}

func TestWatchCountsErrorsOfAllItsLoggers(t *testing.T) {
	watch := newLogWatch(slog.NewTextHandler(io.Discard, logLevel))
	log := slog.New(watch)
	log.Warn("almost")
	if n := watch.errors.Load(); n != 0 {
		t.Errorf("%d errors after a warning", n)
	}
	log.Error("one")
	log.With("a", 1).Error("two")
	log.WithGroup("g").Error("three")
	if n := watch.errors.Load(); n != 3 {
		t.Errorf("%d errors, want 3", n)
	}
}

func TestFiguresTellHowMuchWasLogged(t *testing.T) {
	const bytes, iterations = 64 << 10, 10 // of the same memory, which is lent and counts once
	for mode, logged := range map[string]bool{plainMode: false, replayMode: true} {
		how := benchHow{Mode: mode}
		watch := newLogWatch(slog.NewTextHandler(io.Discard, logLevel))
		job := how.job(watch)
		job.Local = 2
		var out strings.Builder
		err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
			jobs := []benchloop.Job{{Op: benchloop.Broadcast, Bytes: bytes, Iterations: iterations}}
			return benchTask(ctx, task, jobs, how, watch, &out)
		})
		if err != nil {
			t.Fatal(err)
		}
		var got benchFigures
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
			t.Fatal(err)
		}
		if enough := got.LogBytes >= bytes; enough != logged || !logged && got.LogBytes != 0 {
			t.Errorf("mode %s: %d bytes logged in %d broadcasts of %d", mode, got.LogBytes, iterations, bytes)
		}
	}
}
