package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// ring passes a list around; every task adds its rank.
func ring(ctx context.Context, t *coppice.Task) (any, error) {
	var seen []int
	if t.Rank() > 0 {
		var err error
		if seen, err = coppice.Recv[[]int](ctx, t, t.Rank()-1, 0); err != nil {
			return nil, err
		}
	}
	seen = append(seen, t.Rank())
	if t.Rank() == t.Size()-1 {
		return seen, nil
	}
	return seen, coppice.Send(ctx, t, t.Rank()+1, 0, seen)
}
