package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// twoSaves has two stages.
func twoSaves(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Sum int }{}
	if err := coppice.Save(ctx, t, &s); err != nil {
		return nil, err
	}
	v, err := coppice.AllReduce(ctx, t, t.Rank()+1, coppice.Sum)
	if err != nil {
		return nil, err
	}
	s.Sum += v
	if err := coppice.Save(ctx, t, &s); err != nil {
		return nil, err
	}
	v, err = coppice.AllReduce(ctx, t, s.Sum, coppice.Sum)
	if err != nil {
		return nil, err
	}
	s.Sum += v
	return s.Sum, coppice.Barrier(ctx, t)
}
