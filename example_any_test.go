package coppice_test

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// A master gives each worker the next piece of work as soon as it has the result of the last. Process 0, which has the master, and process 2
// are killed; the master that is run again gets the results in the same order.
func ExampleRecvAny() {
	const results, work, pieces = 1, 2, 12
	job := coppice.Job{Local: 4}
	err := job.Run(coppicetest.WithKills(context.Background(), "0@send#5", "2@send#2"), func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() > 0 { // a worker says what it has until there is no more work
			for result := 0; ; {
				if err := coppice.Send(ctx, t, 0, results, result); err != nil {
					return err
				}
				piece, err := coppice.Recv[int](ctx, t, 0, work)
				if err != nil || piece == 0 {
					return err
				}
				result = piece * piece
			}
		}
		sum := 0
		for piece, busy := 1, t.Size()-1; busy > 0; piece++ {
			result, from, err := coppice.RecvAny[int](ctx, t, results)
			if err != nil {
				return err
			}
			sum += result
			next := piece
			if piece > pieces {
				next, busy = 0, busy-1
			}
			if err := coppice.Send(ctx, t, from, work, next); err != nil {
				return err
			}
		}
		fmt.Println("sum of squares:", sum)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// sum of squares: 650
}
