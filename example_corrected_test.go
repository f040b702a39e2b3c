package coppice_test

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
)

// Task 4 dies as it comes to the sum. The others go on without it, and all have the same.
func ExampleCorrected_reduction() {
	job := coppice.Job{Local: 6, Recovery: coppice.Report, Kill: []string{"4@allreduce#1"}}
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum, coppice.Mode(coppice.Corrected("failure-proof:1")))
		if err == nil {
			fmt.Println("task", t.Rank(), "has", sum)
		}
		return err
	})
	fmt.Println("error:", err)
	// Unordered output:
	// task 0 has 11
	// task 1 has 11
	// task 2 has 11
	// task 3 has 11
	// task 5 has 11
	// error: <nil>
}
