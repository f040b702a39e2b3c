package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// reduceDecides doubles until the sum is large.
func reduceDecides(ctx context.Context, t *coppice.Task) (any, error) {
	x := t.Rank() + 1
	for range 10 {
		sum, err := coppice.Reduce(ctx, t, x, coppice.Sum)
		if err != nil {
			return nil, err
		}
		if sum > 50 {
			break
		}
		x *= 2
	}
	return coppice.AllReduce(ctx, t, x, coppice.Sum)
}
