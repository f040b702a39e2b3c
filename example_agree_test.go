package coppice_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// All tasks know the same sum, and that all know it.
func ExampleAgree() {
	runExample(4, func(ctx context.Context, t *coppice.Task) error {
		sum, failed, err := coppice.Agree(ctx, t, t.Rank()+1, func(a, b int) int { return a + b })
		if err == nil && t.Rank() == 2 {
			fmt.Println(sum, failed)
		}
		return err
	})
	// Output: 10 []
}

// Where the dead stay dead, Agree goes on without them and says who they are. FailedAck
// says what this task knows.
func ExampleTask_FailedAck() {
	job := coppice.Job{Local: 4, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(context.Background(), "2@barrier#1"), func(ctx context.Context, t *coppice.Task) error {
		_ = coppice.Barrier(ctx, t) // task 2 dies here
		sum, failed, err := coppice.Agree(ctx, t, t.Rank()+1, func(a, b int) int { return a + b })
		if err == nil && t.Rank() == 0 {
			fmt.Println(sum, failed, t.FailedAck())
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 7 [2] [2]
}

// With Agreed a task knows that all others have what it has, or will have.
func ExampleAgreed() {
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		v, err := coppice.Broadcast(ctx, t, "all or none", coppice.Agreed())
		if err == nil && t.Rank() == 1 {
			fmt.Println(v)
		}
		return err
	})
	// Output: all or none
}

// A task that has run out of time ends an agreed operation for all.
func ExampleErrAborted() {
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		mine, cancel := context.WithCancel(ctx)
		defer cancel()
		if t.Rank() == 1 {
			cancel()
		}
		_, err := coppice.Broadcast(mine, t, 1, coppice.Agreed())
		fmt.Println("task", t.Rank(), errors.Is(err, coppice.ErrAborted))
		return nil
	})
	// Unordered output:
	// task 0 true
	// task 1 true
	// task 2 true
}

// The survivors go on in a group of their own.
func ExampleTask_Shrink() {
	job := coppice.Job{Local: 4, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(context.Background(), "1@allreduce#1/1"), func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.AllReduce(ctx, t, 1, coppice.Sum, coppice.Agreed())
		if !errors.Is(err, coppice.ErrLost) { // it is, at all who live
			return err
		}
		if t, err = t.Shrink(ctx); err != nil {
			return err
		}
		n, err := coppice.AllReduce(ctx, t, 1, coppice.Sum)
		if err == nil && t.Rank() == 0 {
			fmt.Println(n, "of 4 are left")
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 3 of 4 are left
}

// Revoke ends the waits of those who do not know that something went wrong.
func ExampleTask_Revoke() {
	job := coppice.Job{Local: 3, Recovery: coppice.Report}
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() == 0 {
			t.Revoke() // instead of sending what the others wait for
			return nil
		}
		_, err := coppice.Recv[int](ctx, t, 0, 0)
		fmt.Println(err)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// recv in view 1: group revoked
	// recv in view 1: group revoked
}

// A group that was revoked is of no more use, but for Agree and Shrink.
func ExampleErrRevoked() {
	job := coppice.Job{Local: 1, Recovery: coppice.Report}
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		t.Revoke()
		err := coppice.Barrier(ctx, t)
		fmt.Println(errors.Is(err, coppice.ErrRevoked))
		if t, err = t.Shrink(ctx); err != nil {
			return err
		}
		return coppice.Barrier(ctx, t)
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}
