package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// rootOfReduce broadcasts what the best task has.
func rootOfReduce(ctx context.Context, t *coppice.Task) (any, error) {
	mine := coppice.At[int]{Value: 10 - t.Rank()*t.Rank(), Rank: t.Rank()}
	best, err := coppice.ReduceFunc(ctx, t, mine, coppice.MinAt[int])
	if err != nil {
		return nil, err
	}
	return coppice.Broadcast(ctx, t, t.Rank()*3, coppice.Root(best.Rank))
}
