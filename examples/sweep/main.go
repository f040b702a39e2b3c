// Command sweep tries parameters: task 0 gives one to each of the others, and the next one to whoever has a result. So a slow task gets
// fewer of them. RecvAny receives in the same order again if task 0 is run again.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/sweep
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice"
)

const parameters = 64

func main() {
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		found, err := sweep(ctx, t, parameters, longest)
		if err == nil && t.Rank() == 0 {
			best := slices.Max(found)
			fmt.Printf("parameter %d gives %d\n", slices.Index(found, best), best)
		}
		return err
	})
}

// Tags of messages.
const (
	askTag  = iota // to task 0: a result, and the wish for more
	giveTag        // from task 0
)

// result is what a worker has found; Parameter is −1 when it asks for its first one.
type result struct{ Parameter, Value int }

// sweep returns, at task 0, what f gives for each parameter.
func sweep(ctx context.Context, t *coppice.Task, parameters int, f func(parameter int) int) ([]int, error) {
	switch {
	case t.Size() == 1:
		return nil, errors.New("1 task; allowed: 2 or more, one of which gives out the work")
	case t.Rank() > 0:
		return nil, work(ctx, t, f)
	}
	found := make([]int, parameters)
	for next, working := 0, t.Size()-1; working > 0; next++ {
		r, worker, err := coppice.RecvAny[result](ctx, t, askTag)
		if err != nil {
			return nil, err
		}
		if r.Parameter >= 0 {
			found[r.Parameter] = r.Value
		}
		give := next
		if next >= parameters {
			give, working = -1, working-1
		}
		if err := coppice.Send(ctx, t, worker, giveTag, give); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// work asks task 0 for parameters until there are no more.
func work(ctx context.Context, t *coppice.Task, f func(parameter int) int) error {
	for r := (result{Parameter: -1}); ; r.Value = f(r.Parameter) {
		if err := coppice.Send(ctx, t, 0, askTag, r); err != nil {
			return err
		}
		var err error
		if r.Parameter, err = coppice.Recv[int](ctx, t, 0, giveTag); err != nil || r.Parameter < 0 {
			return err
		}
	}
}

// longest is how many steps the longest Collatz sequence has that begins in a range; how long that takes differs.
func longest(parameter int) (most int) {
	for n := 1 + parameter*10_000; n <= (parameter+1)*10_000; n++ {
		steps := 0
		for x := n; x != 1; steps++ {
			if x%2 == 0 {
				x /= 2
			} else {
				x = 3*x + 1
			}
		}
		most = max(most, steps)
	}
	return most
}
