package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/coppice-go/coppice"
)

// A job that ends before its time, and the same job taken up again: it goes on from the
// round that all tasks have saved last. Under the launcher, coppice run --resume does what
// Resume does here.
func ExampleStored() {
	dir, err := os.MkdirTemp("", "states")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	outage := errors.New("outage")
	program := func(last int) coppice.Func {
		return func(ctx context.Context, t *coppice.Task) error {
			s := struct{ Round, Sum int }{}
			for ; s.Round < 6; s.Round++ {
				if err := coppice.Save(ctx, t, &s, coppice.Stored(dir)); err != nil {
					return err
				}
				if s.Round == last {
					return outage
				}
				sum, err := coppice.AllReduce(ctx, t, s.Round*t.Rank(), coppice.Sum)
				if err != nil {
					return err
				}
				s.Sum += sum
				if t.Rank() == 0 {
					fmt.Println("round", s.Round, "sum", s.Sum)
				}
			}
			return nil
		}
	}
	if err := coppice.Local(context.Background(), 3, program(3)); errors.Is(err, outage) {
		fmt.Println(outage)
	}
	job := coppice.Job{Local: 3, Resume: true}
	if err := job.Run(context.Background(), program(-1)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// round 0 sum 0
	// round 1 sum 3
	// round 2 sum 9
	// outage
	// round 3 sum 18
	// round 4 sum 30
	// round 5 sum 45
}

// A program that may save in files or not has the choice in one place.
func ExampleSaveOption() {
	program := func(keep ...coppice.SaveOption) coppice.Func {
		return func(ctx context.Context, t *coppice.Task) error {
			seed, err := coppice.Once(ctx, t, func(context.Context) (int, error) { return 7, nil }, keep...)
			if err == nil {
				err = coppice.Save(ctx, t, &seed, keep...)
			}
			if err == nil && t.Rank() == 0 {
				fmt.Println("saved", seed)
			}
			return err
		}
	}
	dir, err := os.MkdirTemp("", "states")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	runExample(2, program())
	runExample(2, program(coppice.Stored(dir)))
	// Output:
	// saved 7
	// saved 7
}
