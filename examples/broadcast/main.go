// Command broadcast shows a corrected broadcast survive a crash. Task 0 gives all tasks three values,
// one after the other, and a process may be killed in the middle. The others finish, with every value.
// By default a survivor would run the crashed task again; here none does, and a task without a value
// gets an error.
//
//	go run ./cmd/coppice run -n 8 --kill 3@broadcast#2 -- go run ./examples/broadcast
//	go run ./cmd/coppice run -n 8 --kill 3@broadcast#2 -- go run ./examples/broadcast -plain
//	go run ./examples/broadcast
//
// With -plain nothing protects against crashes: tasks that need the crashed one to get a value get an
// error that names it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/coppice-go/coppice"
)

func main() {
	plain := flag.Bool("plain", false, "broadcast without correction")
	flag.Parse()
	mode := coppice.Corrected(coppice.Checked())
	if *plain {
		mode = coppice.Plain()
	}
	job := coppice.Job{Recovery: coppice.Report}
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error { return rounds(ctx, t, mode) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// rounds broadcasts three values from task 0.
func rounds(ctx context.Context, t *coppice.Task, mode coppice.Option) error {
	var got []string
	for round := range 3 {
		value := ""
		if t.Rank() == 0 {
			value = fmt.Sprintf("value %d", round+1)
		}
		value, err := coppice.Broadcast(ctx, t, value, mode)
		if err != nil {
			return err
		}
		got = append(got, value)
	}
	fmt.Printf("task %d has %q\n", t.Rank(), got)
	return nil
}
