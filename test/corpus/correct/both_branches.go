package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// bothBranches calls the same operation in both branches.
func bothBranches(ctx context.Context, t *coppice.Task) (any, error) {
	if t.Rank()%2 == 0 {
		sum, err := coppice.AllReduce(ctx, t, 7, coppice.Sum)
		if err != nil {
			return nil, err
		}
		return sum, coppice.Barrier(ctx, t)
	}
	sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
	if err != nil {
		return nil, err
	}
	if err := coppice.Barrier(ctx, t); err != nil {
		return nil, err
	}
	return -sum, nil
}
