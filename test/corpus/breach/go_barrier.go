package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// goBarrier begins the sum before all tasks have arrived.
func goBarrier(ctx context.Context, t *coppice.Task) (any, error) {
	done := make(chan error, 1)
	go func() { done <- coppice.Barrier(ctx, t) }()
	sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
	if err != nil {
		return nil, err
	}
	return sum, <-done
}
