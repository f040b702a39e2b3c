package options

import (
	"context"

	"github.com/coppice-go/coppice"
)

func add(a, b int) int { return a + b }

func misplaced(ctx context.Context, t *coppice.Task, v []int) error {
	if err := coppice.Barrier(ctx, t, coppice.Plain(), coppice.Root(1)); err != nil { // want `Root means nothing to Barrier, .*allowed with: Broadcast, .*\[option\]`
		return err
	}
	if err := coppice.Barrier(ctx, t, coppice.Into(v)); err != nil { // want `Into means nothing to Barrier.*\[option\]`
		return err
	}
	if _, err := coppice.AllReduce(ctx, t, 1, coppice.Sum, coppice.Root(1), coppice.Into(v)); err != nil {
		return err
	}
	if _, err := coppice.AllReduceFunc(ctx, t, 1, add, coppice.Backups(true), coppice.Plain()); err != nil {
		return err
	}
	_, err := coppice.Reduce(ctx, t, 1, coppice.Sum, coppice.Backups(true)) // want `Backups means nothing to Reduce, .*\[option\]`
	return err
}
