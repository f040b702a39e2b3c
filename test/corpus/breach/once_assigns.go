package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// onceAssigns loads two tables at once.
func onceAssigns(ctx context.Context, t *coppice.Task) (any, error) {
	var names []string
	sizes, err := coppice.Once(ctx, t, func(context.Context) ([]int, error) {
		names = []string{"a", "bb", "ccc"}
		return []int{1, 2, 3}, nil
	})
	if err != nil {
		return nil, err
	}
	sum, err := coppice.AllReduce(ctx, t, len(names)*sizes[t.Rank()], coppice.Sum)
	if err != nil {
		return nil, err
	}
	return sum, coppice.Barrier(ctx, t)
}
