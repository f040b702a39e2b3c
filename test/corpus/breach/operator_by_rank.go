package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// operatorByRank takes the largest, or the sum.
func operatorByRank(ctx context.Context, t *coppice.Task) (any, error) {
	op := coppice.Sum
	if t.Rank()%2 == 1 {
		op = coppice.Max
	}
	return coppice.AllReduce(ctx, t, t.Rank()+5, op)
}
