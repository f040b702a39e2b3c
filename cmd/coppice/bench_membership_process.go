package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/clock"
)

// fanoutVariable sets the fan-out of the tree that carries proposals of views.
const fanoutVariable = "COPPICE_FANOUT"

// benchMembershipProcessCmd is what `coppice bench membership` starts: one process
// of a job in which others, or itself, are killed one after the other. It waits in
// views and in nothing else.
type benchMembershipProcessCmd struct {
	Victims []int `arg:""`
}

func (b *benchMembershipProcessCmd) Run(c *console) error {
	death := newDeathLog(b.Victims, c.stderr)
	job := coppice.Job{Recovery: coppice.Report, Logger: slog.New(death)}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return job.Run(ctx, func(ctx context.Context, t *coppice.Task) error {
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		out := json.NewEncoder(c.stdout)
		ready := deathLine{Rank: t.Rank(), Ready: true, PID: os.Getpid()}
		if err := out.Encode(ready); err != nil {
			return err
		}
		return outlive(ctx, t, b.Victims, func(i int, opened int64) error {
			time.Sleep(reportAfter) // to report is not to get in the way of those who are not through
			err := out.Encode(deathLine{Rank: t.Rank(), Death: i, Learned: death.learned[i].Load(), Opened: opened})
			if ready.Death = i + 1; err == nil && ready.Death < len(b.Victims) {
				err = out.Encode(ready)
			}
			return err
		})
	})
}

// reportAfter is when a process reports a view: all have it by then.
const reportAfter = 300 * time.Millisecond

// outlive waits for the views without the victims, one after the other, and tells
// when each was there. If somebody else is missing, what is measured would be another
// thing.
func outlive(ctx context.Context, t *coppice.Task, victims []int, tell func(i int, opened int64) error) error {
	gone := 0
	for v := range t.Views(ctx) {
		now := clock.Now()
		missing := t.Size() - len(v.Processes)
		if missing == gone {
			continue
		}
		in := slices.ContainsFunc(v.Processes, func(p coppice.Process) bool { return p.ID == victims[gone] })
		if missing != gone+1 || in {
			return fmt.Errorf("view %d is without %d processes; want %v", v.Number, missing, victims[:gone+1])
		}
		if err := tell(gone, now); err != nil {
			return err
		}
		if gone++; gone == len(victims) {
			return nil
		}
	}
	return fmt.Errorf("no view without rank %d: %w", victims[gone], cmp.Or(context.Cause(ctx), errNoMoreViews))
}

var errNoMoreViews = errors.New("this process is in no view any more")
