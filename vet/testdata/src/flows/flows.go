package flows

import (
	"context"
	"elsewhere"
	"fmt"
	"sort"

	"github.com/coppice-go/coppice"
)

func stamped(ctx context.Context, t *coppice.Task) error {
	return elsewhere.Share(ctx, t, elsewhere.Stamp()) // want `Share passes to Broadcast a value that depends on the clock \(time.Now, elsewhere.go:\d+\).*\[input\]`
}

func field(ctx context.Context, t *coppice.Task) error {
	var timer elsewhere.Timer
	timer.Start()
	if _, err := coppice.Broadcast(ctx, t, timer.Count); err != nil { // another field
		return err
	}
	_, err := coppice.Broadcast(ctx, t, timer) // want `the clock`
	return err
}

func keys(ctx context.Context, t *coppice.Task, m map[string]int) error {
	list := elsewhere.Keys(m)
	sort.Strings(list)
	if _, err := coppice.Broadcast(ctx, t, list); err != nil {
		return err
	}
	_, err := coppice.Broadcast(ctx, t, elsewhere.Keys(m)) // want `the order of a map`
	return err
}

func generic(ctx context.Context, t *coppice.Task, m map[string]int, c chan string) error {
	_, err := coppice.Broadcast(ctx, t, elsewhere.Any(m, c)) // want `the order of a map`
	return err
}

func random(ctx context.Context, t *coppice.Task) error {
	for _, i := range elsewhere.Shuffled(4) { // want `whether Broadcast.* is called depends on random numbers`
		if _, err := coppice.Broadcast(ctx, t, i); err != nil { // want `random numbers`
			return err
		}
	}
	return nil
}

func pure(ctx context.Context, t *coppice.Task) error {
	_, err := coppice.Broadcast(ctx, t, elsewhere.Twice(t.Size()))
	elsewhere.Must(err) // want `Must, by log.Fatal, ends the process .*\[exit\]`
	return err
}

func maybe(ctx context.Context, t *coppice.Task) error {
	if err := elsewhere.Maybe(ctx, t, t.Size() > 2); err != nil {
		return err
	}
	return elsewhere.Maybe(ctx, t, t.Rank() > 2) // want `which operations Maybe calls depends on the rank .*\[partner\]`
}

func saved(ctx context.Context, t *coppice.Task) (int, error) {
	round := 0
	sum := 0 // want `variable sum is carried across Save .*\[state\]`
	for ; round < 5; round++ {
		if err := elsewhere.Checkpoint(ctx, t, &round); err != nil {
			return 0, err
		}
		v, err := coppice.AllReduce(ctx, t, round, coppice.Sum)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

func printed(ctx context.Context, t *coppice.Task) error {
	fmt.Println(elsewhere.Stamp())
	return coppice.Barrier(ctx, t)
}
