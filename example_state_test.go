package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// Task 1 dies in the third round. It is run again by another process, and its first Save
// takes it to where it was: it does not begin with round 0.
func ExampleSave() {
	var resumed atomic.Int32
	job := coppice.Job{Local: 3}
	err := job.Run(coppicetest.WithKills(context.Background(), "1@allreduce#3"), func(ctx context.Context, t *coppice.Task) error {
		s := struct{ Round, Sum int }{}
		for ; s.Round < 4; s.Round++ {
			if err := coppice.Save(ctx, t, &s); err != nil {
				return err
			}
			if t.Attempt() > 0 && resumed.CompareAndSwap(0, 1) {
				fmt.Println("task", t.Rank(), "resumes in round", s.Round, "with", s.Sum)
			}
			sum, err := coppice.AllReduce(ctx, t, s.Sum+1, coppice.Sum)
			if err != nil {
				return err
			}
			s.Sum = sum
		}
		fmt.Println("task", t.Rank(), "has", s.Sum)
		return nil
	})
	fmt.Println("error:", err)
	// Unordered output:
	// task 1 resumes in round 2 with 12
	// task 0 has 120
	// task 1 has 120
	// task 2 has 120
	// error: <nil>
}

// A clock, a file or a random number is asked once: the task that is run again, after task 1's process
// has died, gets what it got before.
func ExampleOnce() {
	var calls atomic.Int32
	job := coppice.Job{Local: 3}
	err := job.Run(coppicetest.WithKills(context.Background(), "1@barrier#1"), func(ctx context.Context, t *coppice.Task) error {
		ticket, err := coppice.Once(ctx, t, func(context.Context) (int32, error) { return calls.Add(1), nil })
		if err != nil {
			return err
		}
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		sum, err := coppice.AllReduce(ctx, t, ticket, coppice.Sum)
		if err == nil && t.Rank() == 1 {
			fmt.Println("run again:", t.Attempt() > 0, "sum:", sum)
		}
		return err
	})
	fmt.Println("calls:", calls.Load(), "error:", err)
	// Output:
	// run again: true sum: 6
	// calls: 3 error: <nil>
}

// When a process joins the job it is given tasks of others, which find out in Save. They
// return the error like any other, and the job goes on. Here the example makes it.
func ExampleErrMoved() {
	ctx, move := context.WithCancelCause(context.Background())
	moved := make(chan struct{})
	_ = coppice.Local(ctx, 2, func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() == 1 {
			<-moved
			return nil
		}
		move(coppice.ErrMoved)
		err := coppice.Save(ctx, t, new(int))
		fmt.Println("goes on elsewhere:", errors.Is(err, coppice.ErrMoved))
		close(moved)
		return err
	})
	// Output: goes on elsewhere: true
}
