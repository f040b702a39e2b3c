package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/clock"
)

// fanoutVariable sets the fan-out of the tree that carries proposals of views.
const fanoutVariable = "COPPICE_FANOUT"

// benchMembershipProcessCmd is what `coppice bench membership` starts: one process
// of a job in which another one, or itself, is killed. It waits in views and in
// nothing else.
type benchMembershipProcessCmd struct {
	Victim int `arg:""`
}

func (b *benchMembershipProcessCmd) Run(c *console) error {
	death := &deathLog{victim: int64(b.Victim), errors: slog.NewTextHandler(c.stderr, nil)}
	job := coppice.Job{Logger: slog.New(death)}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return job.Run(ctx, func(ctx context.Context, t *coppice.Task) error {
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		out := json.NewEncoder(c.stdout)
		if err := out.Encode(membershipLine{Rank: t.Rank(), PID: os.Getpid()}); err != nil {
			return err
		}
		opened, err := outlive(ctx, t, b.Victim)
		if err != nil {
			return err
		}
		return out.Encode(membershipLine{Rank: t.Rank(), Learned: death.at.Load(), Opened: opened})
	})
}

// outlive waits for the view without the victim, and returns when it was there.
func outlive(ctx context.Context, t *coppice.Task, victim int) (opened int64, err error) {
	for v := range t.Views(ctx) {
		if !slices.ContainsFunc(v.Processes, func(p coppice.Process) bool { return p.ID == victim }) {
			return clock.Now(), nil
		}
	}
	return 0, fmt.Errorf("no view without rank %d: %w", victim, context.Cause(ctx))
}

// deathLog notes when the library first logs the death of the victim: that is when
// it knows, which a task learns of later. Of all else only errors are shown.
type deathLog struct {
	victim int64
	at     atomic.Int64 // by the common clock; 0: not yet
	errors slog.Handler
}

// What the library logs of a death.
const (
	deathMessage = "dead"
	deathOf      = "peer"
)

func (d *deathLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (d *deathLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		return d.errors.Handle(ctx, r)
	}
	if r.Message != deathMessage {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == deathOf && a.Value.Kind() == slog.KindInt64 && a.Value.Int64() == d.victim {
			d.at.CompareAndSwap(0, clock.Now())
		}
		return true
	})
	return nil
}

func (d *deathLog) WithAttrs([]slog.Attr) slog.Handler { return d }
func (d *deathLog) WithGroup(string) slog.Handler      { return d }
