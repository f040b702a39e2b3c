package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/coppice-go/coppice"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Mode replay: processes keep what they send. Their log only grows, and is given up
// when it is too large; what is measured from then on is another thing. So a job
// measures as much as fits in, and what does not is an error.

// Bounds of logs.
const (
	benchLogBytes = 1 << 30 // of a process: the library's default
	logPart       = 0.5     // of them that measurements fill
	memoryPart    = 0.25    // of the free memory that all logs together fill
	logHead       = 256     // bytes that an iteration logs for each process besides values
)

// logs tells whether processes keep what they send.
func (b *benchCmd) logs() bool { return logged(b.Mode) || slices.ContainsFunc(b.Compare, logged) }

// logged tells whether in a mode what is sent is kept.
func logged(mode string) bool {
	return mode == replayMode || mode == agreedMode || mode == sendsMode
}

// logShare is what one iteration takes of the log that a job may have.
func (c *benchCell) logShare() float64 {
	p := float64(c.Processes)
	busiest := c.sent() + logHead*p
	share := busiest / (logPart * benchLogBytes)
	if free, ok := freeMemory(); ok {
		all := 2*float64(c.moved()) + logHead*p*p // twice: by way of a hub
		share = max(share, all/(memoryPart*free))
	}
	return share
}

// sent is how many bytes any one process sends at most.
func (c *benchCell) sent() float64 {
	each := float64(c.Bytes) * float64(c.Processes-1)
	op, err := collective.ParseOp(c.Op)
	if err != nil || op != collective.AllGather && op != collective.AllToAll && op != collective.ReduceScatter {
		return each
	}
	if collective.Default.Choose(collective.Spec{Op: op, P: c.Processes}, int64(c.Bytes)).Algorithm == collective.Hub {
		return each * float64(c.Processes)
	}
	return each
}

// fitLog makes the iterations so few that the log of one job holds them, if nobody
// has asked for another number.
func (c *benchCell) fitLog(fewer bool) error {
	most := int(min(1/c.logShare(), 2*benchIterationsMax))
	if c.Warmup+c.Iterations <= most {
		return nil
	}
	if iterations := most - most/10 - 1; fewer && iterations > 0 {
		c.Iterations, c.Warmup = iterations, benchloop.Warmup(iterations)
		return nil
	}
	return fmt.Errorf("%d iterations of %s of %d bytes among %d processes, with their warm-up, are more than a log holds; allowed here in mode replay: %d", c.Warmup+c.Iterations, c.Op, c.Bytes, c.Processes, most)
}

// checkLogged makes sure that the loops of these operations are logged in a mode: it has
// each of them fill a small log. What is saved is in none.
func checkLogged(mode string, names []string) error {
	const bytes, enough = 64 << 10, 32 << 10 // barriers need less, one value more
	how := benchHow{Mode: replayMode}
	if mode == sendsMode {
		how.Mode = mode
	}
	for _, op := range names {
		if !benchloop.Sized(op) || op == benchloop.Save && mode != sendsMode {
			continue
		}
		watch := newLogWatch(slog.NewTextHandler(io.Discard, logLevel))
		job := how.job(watch)
		job.Local, job.LogBytes = 2, enough
		err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
			_, err := how.measure(ctx, t, t, benchloop.Job{Op: op, Bytes: bytes, Iterations: 1, Copies: 1})
			return err
		})
		if err == nil && watch.errors.Load() == 0 {
			err = fmt.Errorf("the loop of %s is not logged; allowed in mode replay: operations that are", op)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// logLevel is what a program shows of the library's log by default.
var logLevel = &slog.HandlerOptions{Level: slog.LevelWarn}

// logWatch is a handler that counts what the library takes for errors, such as a log
// given up: what is measured then is not what was asked for.
type logWatch struct {
	slog.Handler
	errors *atomic.Int64
}

func newLogWatch(h slog.Handler) *logWatch { return &logWatch{h, new(atomic.Int64)} }

func (w *logWatch) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		w.errors.Add(1)
	}
	return w.Handler.Handle(ctx, r)
}

func (w *logWatch) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logWatch{w.Handler.WithAttrs(attrs), w.errors}
}

func (w *logWatch) WithGroup(name string) slog.Handler {
	return &logWatch{w.Handler.WithGroup(name), w.errors}
}
