package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-go/coppice"
)

// waitsInBarrier is a line of its own.
func waitsInBarrier(ctx context.Context, t *coppice.Task) error {
	return coppice.Barrier(ctx, t)
}

// TestDeadlockNamesTheLinesOfAll: of several jobs of this process at once, each names its own.
func TestDeadlockNamesTheLinesOfAll(t *testing.T) {
	var jobs sync.WaitGroup
	for _, third := range []bool{true, false} {
		jobs.Go(func() {
			err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
				switch {
				case task.Rank() == 0:
					_, err := coppice.Recv[int](ctx, task, 1, 5)
					return err
				case third:
					_, err := coppice.Recv[int](ctx, task, 0, 6)
					return err
				}
				return waitsInBarrier(ctx, task)
			})
			if !errors.Is(err, coppice.ErrDeadlock) {
				t.Error(err)
				return
			}
			other := "task 1 waits in Recv(from 0, tag 6) at deadlock_line_test.go:30"
			if !third {
				other = "task 1 waits in Barrier(operation 1 of its group) at deadlock_line_test.go:16"
			}
			for line := range strings.Lines(err.Error()) { // one a task
				for _, want := range []string{"task 0 waits in Recv(from 1, tag 5) at deadlock_line_test.go:27", other} {
					if !strings.Contains(line, want) {
						t.Errorf("%s, want %s", line, want)
					}
				}
			}
		})
	}
	jobs.Wait()
}

// TestReceivingFromOneselfFails if nothing was sent.
func TestReceivingFromOneselfFails(t *testing.T) {
	err := coppice.Local(t.Context(), 1, func(ctx context.Context, task *coppice.Task) error {
		if err := coppice.Send(ctx, task, 0, 1, 7); err != nil {
			return err
		}
		if v, err := coppice.Recv[int](ctx, task, 0, 1); err != nil || v != 7 {
			return fmt.Errorf("%d, %w", v, err)
		}
		_, err := coppice.Recv[int](ctx, task, 0, 1)
		return err
	})
	const want = "task 0: recv in view 1: deadlock at deadlock_line_test.go:64: task 0 receives from itself, and has sent itself nothing with tag 1 that it has not received"
	if !errors.Is(err, coppice.ErrDeadlock) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
