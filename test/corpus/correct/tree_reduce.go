package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// treeReduce adds up along a binomial tree of messages: a task that has sent is done.
func treeReduce(ctx context.Context, t *coppice.Task) (any, error) {
	sum := (t.Rank() + 2) * 3
	for bit := 1; bit < t.Size(); bit <<= 1 {
		if t.Rank()&bit != 0 {
			if err := coppice.Send(ctx, t, t.Rank()-bit, 0, sum); err != nil {
				return nil, err
			}
			break
		}
		if t.Rank()+bit < t.Size() {
			v, err := coppice.Recv[int](ctx, t, t.Rank()+bit, 0)
			if err != nil {
				return nil, err
			}
			sum += v
		}
	}
	return sum, coppice.Barrier(ctx, t)
}
