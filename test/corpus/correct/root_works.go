package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// rootWorks has branches for the root, of which each has its partner.
func rootWorks(ctx context.Context, t *coppice.Task) (any, error) {
	values := []int{}
	if t.Rank() == 0 {
		for to := 1; to < t.Size(); to++ {
			if err := coppice.Send(ctx, t, to, 5, to*to); err != nil {
				return nil, err
			}
		}
		values = append(values, 100)
	} else {
		v, err := coppice.Recv[int](ctx, t, 0, 5)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	all, err := coppice.Gather(ctx, t, values)
	if err != nil {
		return nil, err
	}
	limit := 0
	if t.Rank() == 0 {
		for _, list := range all {
			limit += list[0]
		}
	}
	if limit, err = coppice.Broadcast(ctx, t, limit); err != nil {
		return nil, err
	}
	if limit > 50 {
		return coppice.AllReduce(ctx, t, values[0], coppice.Max)
	}
	return limit, nil
}
