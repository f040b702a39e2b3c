package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

type coarse struct{ Round int }

type fine struct{ Round, Error int }

// saveTypes changes to another state when it is close.
func saveTypes(ctx context.Context, t *coppice.Task) (any, error) {
	c, f := coarse{}, fine{}
	for ; c.Round < 2; c.Round++ {
		if err := coppice.Save(ctx, t, &c); err != nil {
			return nil, err
		}
		if err := coppice.Barrier(ctx, t); err != nil {
			return nil, err
		}
	}
	for ; f.Round < 2; f.Round++ {
		if err := coppice.Save(ctx, t, &f); err != nil {
			return nil, err
		}
		e, err := coppice.AllReduce(ctx, t, f.Error+t.Rank(), coppice.Sum)
		if err != nil {
			return nil, err
		}
		f.Error = e
	}
	return f.Error, nil
}
