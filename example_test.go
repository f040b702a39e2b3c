package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
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

// Main with settings: four tasks, however many processes there are.
func ExampleJob_Main() {
	job := coppice.Job{Tasks: 4}
	job.Main(func(_ context.Context, t *coppice.Task) error {
		fmt.Printf("task %d of %d\n", t.Rank(), t.Size())
		return nil
	})
	// Unordered output:
	// task 0 of 4
	// task 1 of 4
	// task 2 of 4
	// task 3 of 4
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

// Kill rehearses a death: the process of task 2 dies when it enters its second
// reduction. Another one runs the task again, and the job ends well.
func ExampleJob_Run() {
	job := coppice.Job{Local: 4}
	err := job.Run(coppicetest.WithKills(context.Background(), "2@allreduce#2"), func(ctx context.Context, t *coppice.Task) error {
		sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
		if err != nil {
			return err
		}
		if sum, err = coppice.AllReduce(ctx, t, sum, coppice.Sum); err != nil {
			return err
		}
		fmt.Printf("task %d has %d, attempt %d\n", t.Rank(), sum, t.Attempt())
		return nil
	})
	fmt.Println("error:", err)
	// Unordered output:
	// task 0 has 24, attempt 0
	// task 1 has 24, attempt 0
	// task 2 has 24, attempt 1
	// task 3 has 24, attempt 0
	// error: <nil>
}

// addUp has task 1 die in the middle of a program that adds up the ranks.
func addUp(how coppice.Recovery) {
	job := coppice.Job{Local: 3, Recovery: how}
	err := job.Run(coppicetest.WithKills(context.Background(), "1@allreduce#2"), func(ctx context.Context, t *coppice.Task) error {
		total := 0
		for range 3 {
			sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
			if errors.Is(err, coppice.ErrLost) {
				fmt.Printf("task %d goes on with %d\n", t.Rank(), total)
				return nil
			}
			if err != nil {
				return err
			}
			total += sum
		}
		fmt.Printf("task %d has %d\n", t.Rank(), total)
		return nil
	})
	fmt.Println("error:", err)
}

// Which of the two it is, is decided for a whole job, and the same at all processes.
func ExampleRecovery() {
	fmt.Println(coppice.Job{}.Recovery == coppice.Replay)
	// Output: true
}

// The tasks of a dead process are run again: a program notices nothing.
func ExampleReplay() {
	addUp(coppice.Replay)
	// Unordered output:
	// task 0 has 9
	// task 1 has 9
	// task 2 has 9
	// error: <nil>
}

// A dead task is an error to those who need it, who have to decide what to do.
func ExampleReport() {
	addUp(coppice.Report)
	// Unordered output:
	// task 0 goes on with 3
	// task 2 goes on with 3
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
