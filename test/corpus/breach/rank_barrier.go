package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// rankBarrier has task 0 say that all are there.
func rankBarrier(ctx context.Context, t *coppice.Task) (any, error) {
	sum, err := coppice.AllReduce(ctx, t, 1, coppice.Sum)
	if err != nil {
		return nil, err
	}
	if t.Rank() == 0 {
		if err := coppice.Barrier(ctx, t); err != nil {
			return nil, err
		}
	}
	return sum, nil
}
