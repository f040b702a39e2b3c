package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// leaders adds up in groups; the first of each group then adds up with the others of its kind.
func leaders(ctx context.Context, t *coppice.Task) (any, error) {
	group, err := t.Split(ctx, t.Rank()/2, t.Rank())
	if err != nil {
		return nil, err
	}
	color := -1
	if group.Rank() == 0 {
		color = 0
	}
	top, err := t.Split(ctx, color, t.Rank())
	if err != nil {
		return nil, err
	}
	sum, err := coppice.Reduce(ctx, group, t.Rank()+1, coppice.Sum)
	if err != nil {
		return nil, err
	}
	if top != nil {
		if sum, err = coppice.AllReduce(ctx, top, sum, coppice.Product); err != nil {
			return nil, err
		}
	}
	return coppice.Broadcast(ctx, group, sum)
}
