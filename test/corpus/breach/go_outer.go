package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// goOuter overlaps two sums.
func goOuter(ctx context.Context, t *coppice.Task) (any, error) {
	squares := coppice.Go(t, func(*coppice.Task) (int, error) {
		return coppice.AllReduce(ctx, t, t.Rank()*t.Rank(), coppice.Sum)
	})
	sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
	if err != nil {
		return nil, err
	}
	more, err := squares.Wait(ctx)
	return sum + more, err
}
