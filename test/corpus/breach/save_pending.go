package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// savePending overlaps the sum of one round with the next.
func savePending(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round, Sum int }{}
	for ; s.Round < 3; s.Round++ {
		sum := coppice.Go(t, func(t *coppice.Task) (int, error) { return coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum) })
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		v, err := sum.Wait(ctx)
		if err != nil {
			return nil, err
		}
		s.Sum += v
	}
	return s.Sum, nil
}
