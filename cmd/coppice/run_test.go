package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/coppice-go/coppice"
)

func init() { tools["addup"] = addUp }

// addUp is a program of the scripts: its tasks add up their numbers, three times. The
// process whose rank is its first argument ends in the middle of that, with the
// second as its exit code; who takes its task over does not. If the second is panic, whoever runs the task does
// that. There are ADDUP_TASKS of them, or one in a process.
func addUp() {
	tasks, _ := strconv.Atoi(os.Getenv("ADDUP_TASKS"))
	job := &coppice.Job{Tasks: tasks}
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		for range 3 {
			sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
			if err != nil {
				return err
			}
			own := strconv.Itoa(t.Rank())
			if len(os.Args) > 2 && own == os.Args[1] && os.Args[2] == "panic" {
				panic("no way")
			}
			if len(os.Args) > 2 && own == os.Args[1] && own == os.Getenv("COPPICE_RANK") {
				code, err := strconv.Atoi(os.Args[2])
				if err != nil {
					return err
				}
				os.Exit(code)
			}
			fmt.Println("sum", sum)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
