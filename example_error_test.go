package coppice_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// What a task cannot get any more, because the one that had it is gone, is lost.
func ExampleErrLost() {
	job := coppice.Job{Local: 2, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(context.Background(), "0@send#1"), func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() == 0 {
			return coppice.Send(ctx, t, 1, 0, "never sent")
		}
		_, err := coppice.Recv[string](ctx, t, 0, 0)
		fmt.Println("lost:", errors.Is(err, coppice.ErrLost))
		return nil // it can do without
	})
	fmt.Println("error:", err)
	// Output:
	// lost: true
	// error: <nil>
}

// All tasks of a group call the same operations in the same order. If they do
// not, all of them are told.
func ExampleErrMismatch() {
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		var err error
		if t.Rank() == 0 {
			_, err = coppice.Broadcast(ctx, t, 1, coppice.Root(1))
		} else {
			_, err = coppice.Broadcast(ctx, t, 1, coppice.Root(0))
		}
		fmt.Printf("task %d: mismatch: %t\n", t.Rank(), errors.Is(err, coppice.ErrMismatch))
		return nil
	})
	// Unordered output:
	// task 0: mismatch: true
	// task 1: mismatch: true
}

// The root dies before it has sent anything: nobody can have the value.
func ExampleErrUnreached() {
	job := coppice.Job{Local: 3, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(context.Background(), "0@broadcast#1"), func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Broadcast(ctx, t, 7, coppice.Corrected(coppice.Checked()))
		fmt.Printf("task %d: unreached: %t\n", t.Rank(), errors.Is(err, coppice.ErrUnreached))
		return nil
	})
	fmt.Println("error:", err)
	// Unordered output:
	// task 1: unreached: true
	// task 2: unreached: true
	// error: <nil>
}

// When the launcher is gone, the context of every task ends with ErrAbandoned as
// its cause, and so does what the task waits in. Here the example ends it.
func ExampleErrAbandoned() {
	ctx, abandon := context.WithCancelCause(context.Background())
	_ = coppice.Local(ctx, 1, func(ctx context.Context, t *coppice.Task) error {
		abandon(coppice.ErrAbandoned)
		_, err := coppice.Recv[int](ctx, t, 0, 0) // nobody sends
		fmt.Println("abandoned:", errors.Is(err, coppice.ErrAbandoned))
		return err
	})
	// Output: abandoned: true
}

// A process that the others could not reach finds that they have gone on without
// it. It may be started again, as a new process. Here the example ends it.
func ExampleErrExcluded() {
	ctx, exclude := context.WithCancelCause(context.Background())
	_ = coppice.Local(ctx, 1, func(ctx context.Context, t *coppice.Task) error {
		exclude(coppice.ErrExcluded)
		_, err := coppice.Recv[int](ctx, t, 0, 0) // nobody sends
		fmt.Println("excluded:", errors.Is(err, coppice.ErrExcluded))
		return err
	})
	// Output: excluded: true
}

// On the smaller side of a cut network, operations end with ErrNoQuorum: the
// larger side may be going on. Here the example ends it.
func ExampleErrNoQuorum() {
	ctx, cut := context.WithCancelCause(context.Background())
	_ = coppice.Local(ctx, 1, func(ctx context.Context, t *coppice.Task) error {
		cut(coppice.ErrNoQuorum)
		_, err := coppice.Recv[int](ctx, t, 0, 0) // nobody sends
		fmt.Println("no quorum:", errors.Is(err, coppice.ErrNoQuorum))
		return err
	})
	// Output: no quorum: true
}

// failedBarrier returns what task 1 gets that waits for task 0, which is killed.
func failedBarrier() (failed *coppice.FailedError) {
	job := coppice.Job{Local: 2, Recovery: coppice.Report}
	_ = job.Run(coppicetest.WithKills(context.Background(), "0@barrier#1"), func(ctx context.Context, t *coppice.Task) error {
		err := coppice.Barrier(ctx, t)
		errors.As(err, &failed)
		return err
	})
	return failed
}

func ExampleFailedError() {
	failed := failedBarrier()
	fmt.Println(failed.Op, "failed because of", failed.Tasks)
	// Output: barrier failed because of [0]
}

func ExampleFailedError_Error() {
	err := coppice.FailedError{Op: "barrier", View: 3, Tasks: []int{0}, Err: coppice.ErrLost}
	fmt.Println(err.Error())
	// Output: barrier in view 3: task lost (task 0)
}

func ExampleFailedError_Unwrap() {
	fmt.Println(failedBarrier().Unwrap() == coppice.ErrLost)
	// Output: true
}

// Each of two tasks waits for a message of the other.
func ExampleErrDeadlock() {
	err := coppice.Local(context.Background(), 2, func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Recv[int](ctx, t, 1-t.Rank(), 0) // each from the other
		return err
	})
	fmt.Println("deadlock:", errors.Is(err, coppice.ErrDeadlock))
	// Output: deadlock: true
}

// A task that is run again calls what it called before, with the same inputs. This one
// sends the number of the attempt instead.
func ExampleErrDiverged() {
	job := coppice.Job{Local: 3}
	err := job.Run(coppicetest.WithKills(context.Background(), "1@barrier#1"), func(ctx context.Context, t *coppice.Task) error {
		if _, err := coppice.AllReduce(ctx, t, t.Attempt(), coppice.Sum); err != nil {
			return err
		}
		return coppice.Barrier(ctx, t)
	})
	fmt.Println("diverged:", errors.Is(err, coppice.ErrDiverged))
	// Output:
	// diverged: true
}
