package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// oneSaves keeps the result at task 0.
func oneSaves(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round, Sum int }{}
	for ; s.Round < 3; s.Round++ {
		if t.Rank() == 0 {
			if err := coppice.Save(ctx, t, &s); err != nil {
				return nil, err
			}
		}
		v, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.Sum += v
	}
	return s.Sum, nil
}
