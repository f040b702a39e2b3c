package breach

import (
	"context"
	"slices"

	"github.com/coppice-go/coppice"
)

// emptyReturns finds the largest number of all tasks; the last task has none.
func emptyReturns(ctx context.Context, t *coppice.Task) (any, error) {
	var parts [][]int
	if t.Rank() == 0 {
		parts = [][]int{{3, 9}, {4}, {1, 7}, nil}
	}
	mine, err := coppice.Scatter(ctx, t, parts)
	if err != nil {
		return nil, err
	}
	if len(mine) == 0 {
		return 0, nil
	}
	return coppice.AllReduce(ctx, t, slices.Max(mine), coppice.Max)
}
