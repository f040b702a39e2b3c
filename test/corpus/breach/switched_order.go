package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// switchedOrder adds and multiplies.
func switchedOrder(ctx context.Context, t *coppice.Task) (any, error) {
	var sum, product int
	var err error
	if t.Rank()%2 == 0 {
		if sum, err = coppice.AllReduce(ctx, t, t.Rank()+1, coppice.Sum); err != nil {
			return nil, err
		}
		product, err = coppice.AllReduce(ctx, t, t.Rank()+2, coppice.Product)
	} else {
		if product, err = coppice.AllReduce(ctx, t, t.Rank()+2, coppice.Product); err != nil {
			return nil, err
		}
		sum, err = coppice.AllReduce(ctx, t, t.Rank()+1, coppice.Sum)
	}
	return sum + product, err
}
