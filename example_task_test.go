package coppice_test

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
)

// runExample runs a program as n goroutines and prints what goes wrong.
func runExample(n int, program coppice.Func) {
	if err := coppice.Local(context.Background(), n, program); err != nil {
		fmt.Println(err)
	}
}

// A Task is what a program knows of itself and acts through.
func ExampleTask() {
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() != 0 {
			return coppice.Send(ctx, t, 0, 0, t.Rank()*10)
		}
		for from := 1; from < t.Size(); from++ {
			v, err := coppice.Recv[int](ctx, t, from, 0)
			if err != nil {
				return err
			}
			fmt.Printf("task %d sent %d\n", from, v)
		}
		return nil
	})
	// Output:
	// task 1 sent 10
	// task 2 sent 20
}

func ExampleTask_Rank() {
	runExample(3, func(_ context.Context, t *coppice.Task) error {
		fmt.Println("rank", t.Rank())
		return nil
	})
	// Unordered output:
	// rank 0
	// rank 1
	// rank 2
}

func ExampleTask_Size() {
	runExample(5, func(_ context.Context, t *coppice.Task) error {
		if t.Rank() == t.Size()-1 {
			fmt.Printf("task %d is the last of %d\n", t.Rank(), t.Size())
		}
		return nil
	})
	// Output: task 4 is the last of 5
}

// Attempt is for the names of files, say: what a first attempt began, a second
// one must not find half written.
func ExampleTask_Attempt() {
	runExample(1, func(_ context.Context, t *coppice.Task) error {
		fmt.Printf("result-%d.%d\n", t.Rank(), t.Attempt())
		return nil
	})
	// Output: result-0.0
}

// The numbers differ between tasks, and are the same whenever a program runs.
func ExampleTask_Rand() {
	draw := func() (drawn [2]uint64) {
		runExample(2, func(_ context.Context, t *coppice.Task) error {
			drawn[t.Rank()] = t.Rand().Uint64()
			return nil
		})
		return drawn
	}
	first, second := draw(), draw()
	fmt.Println("the same in both runs:", first == second)
	fmt.Println("the same at both tasks:", first[0] == first[1])
	// Output:
	// the same in both runs: true
	// the same at both tasks: false
}

func ExampleTask_Logger() {
	job := coppice.Job{Local: 2, Logger: timelessLogger()}
	err := job.Run(context.Background(), func(_ context.Context, t *coppice.Task) error {
		if t.Rank() == 1 {
			t.Logger().Info("input is missing", "file", "a.csv")
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: level=INFO msg="input is missing" task=1 file=a.csv
}

// A fork is for a goroutine of one's own: its operations are numbered apart from
// those of the task, so the two may come in any order.
func ExampleTask_Fork() {
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		fork, done := t.Fork(), make(chan error)
		go func() { done <- coppice.Barrier(ctx, fork) }()
		v, err := coppice.Broadcast(ctx, t, "meanwhile")
		if err != nil {
			return err
		}
		if err := <-done; err != nil {
			return err
		}
		fmt.Println(t.Rank(), v)
		return nil
	})
	// Unordered output:
	// 0 meanwhile
	// 1 meanwhile
}

// Even and odd tasks form a group each, in which every task has another rank.
// The highest rank comes first there, since the key is the rank's negative.
func ExampleTask_Split() {
	runExample(5, func(ctx context.Context, t *coppice.Task) error {
		group, err := t.Split(ctx, t.Rank()%2, -t.Rank())
		if err != nil {
			return err
		}
		leader, err := coppice.Broadcast(ctx, group, t.Rank())
		if err != nil {
			return err
		}
		fmt.Printf("task %d is %d of %d; task %d leads\n", t.Rank(), group.Rank(), group.Size(), leader)
		return nil
	})
	// Unordered output:
	// task 0 is 2 of 3; task 4 leads
	// task 1 is 1 of 2; task 3 leads
	// task 2 is 1 of 3; task 4 leads
	// task 3 is 0 of 2; task 3 leads
	// task 4 is 0 of 3; task 4 leads
}
