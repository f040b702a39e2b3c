package coppice_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/coppice-go/coppice"
)

// A program of four tasks: each tells its neighbour on the right who it is, then
// task 0 gives everybody a value.
func Example() {
	program := func(ctx context.Context, t *coppice.Task) error {
		right, left := (t.Rank()+1)%t.Size(), (t.Rank()+t.Size()-1)%t.Size()
		if err := coppice.Send(ctx, t, right, 0, t.Rank()); err != nil {
			return err
		}
		neighbour, err := coppice.Recv[int](ctx, t, left, 0)
		if err != nil {
			return err
		}
		word, err := coppice.Broadcast(ctx, t, "leaf") // the others' values are ignored
		if err != nil {
			return err
		}
		fmt.Printf("task %d: %d is on my left; %s\n", t.Rank(), neighbour, word)
		return nil
	}
	if err := coppice.Local(context.Background(), 4, program); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// task 0: 3 is on my left; leaf
	// task 1: 0 is on my left; leaf
	// task 2: 1 is on my left; leaf
	// task 3: 2 is on my left; leaf
}

// Main is all of a program's func main. Started by itself, as here, the program
// is a job of one task; under coppice run -n 8 it is one of eight.
func ExampleMain() {
	coppice.Main(func(_ context.Context, t *coppice.Task) error {
		fmt.Printf("task %d of %d\n", t.Rank(), t.Size())
		return nil
	})
	// Output: task 0 of 1
}

// Run is for a program that does something with the error itself.
func ExampleRun() {
	err := coppice.Run(context.Background(), func(context.Context, *coppice.Task) error {
		return fmt.Errorf("no input")
	})
	fmt.Println(err)
	// Output: task 0: no input
}

// Local is for tests: processes are goroutines, and nothing is started.
func ExampleLocal() {
	err := coppice.Local(context.Background(), 3, func(_ context.Context, t *coppice.Task) error {
		if t.Rank() > 0 {
			return fmt.Errorf("no input")
		}
		return nil
	})
	fmt.Println(err) // one line for each task that failed
	// Output:
	// task 1: no input
	// task 2: no input
}

// A Func is one task's program. What it needs beside the task it closes over.
func ExampleFunc() {
	greeting := "good morning"
	var program coppice.Func = func(_ context.Context, t *coppice.Task) error {
		fmt.Println(greeting, t.Rank())
		return nil
	}
	if err := coppice.Local(context.Background(), 2, program); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// good morning 0
	// good morning 1
}

// A Job has settings: here more tasks than processes, and a logger.
func ExampleJob() {
	job := coppice.Job{Local: 2, Tasks: 4, Logger: slog.New(slog.DiscardHandler)}
	err := job.Run(context.Background(), func(_ context.Context, t *coppice.Task) error {
		fmt.Printf("task %d of %d\n", t.Rank(), t.Size())
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// task 0 of 4
	// task 1 of 4
	// task 2 of 4
	// task 3 of 4
}

// Kill rehearses a death: the process of task 2 dies when it enters its first
// broadcast. The broadcast is corrected, so the others have the value, and the
// job ends well.
func ExampleJob_Run() {
	job := coppice.Job{Local: 4, Kill: []string{"2@broadcast#1"}}
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		v, err := coppice.Broadcast(ctx, t, 7, coppice.Mode(coppice.Corrected("checked")))
		if err != nil {
			return err
		}
		fmt.Printf("task %d has %d\n", t.Rank(), v)
		return nil
	})
	fmt.Println("error:", err)
	// Unordered output:
	// task 0 has 7
	// task 1 has 7
	// task 3 has 7
	// error: <nil>
}

// timelessLogger logs to standard output, without the time.
func timelessLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}
