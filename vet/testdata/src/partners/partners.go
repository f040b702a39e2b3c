package partners

import (
	"context"
	"errors"

	"github.com/coppice-go/coppice"
)

func refused(ctx context.Context, t *coppice.Task) error {
	if t.Rank() > 100 {
		return errors.New("too many tasks")
	}
	return coppice.Barrier(ctx, t)
}

func swapped(ctx context.Context, t *coppice.Task) error {
	if t.Rank() == 0 { // want `whether .* is called depends on the rank`
		if _, err := coppice.Broadcast(ctx, t, 1); err != nil {
			return err
		}
		return coppice.Barrier(ctx, t)
	}
	if err := coppice.Barrier(ctx, t); err != nil {
		return err
	}
	_, err := coppice.Broadcast(ctx, t, 1)
	return err
}

func agreed(ctx context.Context, t *coppice.Task) error {
	most, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Max)
	if err != nil {
		return err
	}
	if most > 3 {
		return coppice.Barrier(ctx, t)
	}
	return nil
}

func atRoot(ctx context.Context, t *coppice.Task) error {
	sum, err := coppice.Reduce(ctx, t, t.Rank(), coppice.Sum)
	if err != nil {
		return err
	}
	if sum > 3 { // want `a result that differs between tasks \(Reduce`
		return coppice.Barrier(ctx, t)
	}
	return nil
}

func groups(ctx context.Context, t *coppice.Task) error {
	group, err := t.Split(ctx, t.Rank()%2, 0)
	if err != nil {
		return err
	}
	if t.Rank()%2 == 0 {
		return coppice.Barrier(ctx, group)
	}
	return nil
}

func roots(ctx context.Context, t *coppice.Task) error {
	for k := range t.Size() {
		if _, err := coppice.Broadcast(ctx, t, k, coppice.Root(k)); err != nil {
			return err
		}
	}
	_, err := coppice.Broadcast(ctx, t, 1, coppice.Root(t.Rank()%2)) // want `the root of Broadcast depends on the rank .*\[root\]`
	return err
}
