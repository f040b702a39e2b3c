// Command hello is the smallest program of several processes: every task prints its rank, and task 0
// counts the tasks.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/hello
//	go run ./examples/hello
//
// The second line starts it alone: a job of one task.
package main

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
)

func main() { coppice.Main(hello) }

// hello is the program of one task; all tasks run the same.
func hello(ctx context.Context, t *coppice.Task) error {
	fmt.Printf("hello from task %d of %d\n", t.Rank(), t.Size())
	if err := coppice.Barrier(ctx, t); err != nil {
		return err
	}
	if t.Rank() == 0 {
		fmt.Printf("all %d have said hello\n", t.Size())
	}
	return nil
}
