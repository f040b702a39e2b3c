package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

// TestCauseOfAnotherOperation: the cause of a context may be what another operation failed with, as with errgroup. What fails
// because of it says which operation it was itself.
func TestCauseOfAnotherOperation(t *testing.T) {
	_ = coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
		if task.Rank() == 1 {
			return nil
		}
		ctx, cancel := context.WithCancelCause(ctx)
		cause := &coppice.FailedError{Op: "broadcast", View: 99, Tasks: []int{77}, Err: coppice.ErrUnreached}
		cancel(cause)
		_, err := coppice.Recv[int](ctx, task, 0, 1)
		if f, ok := err.(*coppice.FailedError); !ok || f.Op != "recv" || f.View != 1 || f.Err != cause {
			t.Errorf("a %T: %v", err, err)
		}
		return nil
	})
}

// TestEarlyReturnIsMismatch: a FailedError unwraps to an error of the API.
func TestEarlyReturnIsMismatch(t *testing.T) {
	_ = coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
		if task.Rank() == 1 {
			return nil
		}
		_, err := coppice.Recv[int](ctx, task, 1, 1)
		if errors.Unwrap(err) != coppice.ErrMismatch {
			t.Errorf("%v unwraps to %v", err, errors.Unwrap(err))
		}
		return nil
	})
}

// TestCauseIsNoAbort: a task whose context ends, whatever the cause, has not aborted an operation that it takes part in. If it
// has yet to take part, it has, for both.
func TestCauseIsNoAbort(t *testing.T) {
	for _, recovery := range []coppice.Recovery{coppice.Replay, coppice.Report} {
		for _, cause := range []error{coppice.ErrAborted, coppice.ErrRevoked} {
			done, got := [2]chan struct{}{make(chan struct{}), make(chan struct{})}, [2]error{}
			job := coppice.Job{Local: 2, Recovery: recovery, Silence: 100 * time.Millisecond}
			_ = job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
				r := task.Rank()
				if r == 1 {
					<-done[0]
				} else {
					limited, cancel := context.WithCancelCause(ctx)
					time.AfterFunc(50*time.Millisecond, func() { cancel(fmt.Errorf("another operation: %w", cause)) })
					ctx = limited
				}
				got[r] = coppice.Barrier(ctx, task, coppice.Agreed())
				close(done[r])
				<-done[1]
				return nil
			})
			abandoned := errors.Is(got[0], coppice.ErrAbandoned) && errors.Is(got[1], coppice.ErrMismatch)
			aborted := errors.Is(got[0], coppice.ErrAborted) && errors.Is(got[1], coppice.ErrAborted)
			if !abandoned && !aborted {
				t.Errorf("%v, %v: task 0: %v; task 1: %v", recovery, cause, got[0], got[1])
			}
		}
	}
}
