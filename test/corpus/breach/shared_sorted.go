package breach

import (
	"context"
	"slices"

	"github.com/coppice-go/coppice"
)

// sharedSorted sends its numbers, and then sorts them for itself.
func sharedSorted(ctx context.Context, t *coppice.Task) (any, error) {
	numbers := []int{9, 4, 7 + t.Rank(), 1}
	if err := coppice.Barrier(ctx, t); err != nil {
		return nil, err
	}
	all, err := coppice.AllGather(ctx, t, numbers, coppice.Shared())
	if err != nil {
		return nil, err
	}
	first := all[(t.Rank()+1)%t.Size()][0]
	slices.Sort(numbers)
	rest, err := coppice.AllReduce(ctx, t, numbers[0]+first, coppice.Sum)
	if err != nil {
		return nil, err
	}
	return rest, coppice.Barrier(ctx, t)
}
