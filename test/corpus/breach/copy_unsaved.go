package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// copyUnsaved keeps the round in the state, but counts in i.
func copyUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round, Sum int }{}
	for i := s.Round; i < 5; i++ {
		s.Round = i
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		v, err := coppice.AllReduce(ctx, t, i*t.Rank(), coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.Sum += v
	}
	return s.Sum, nil
}
