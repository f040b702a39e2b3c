package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// randBeforeSave draws samples in rounds.
func randBeforeSave(ctx context.Context, t *coppice.Task) (any, error) {
	random := t.Rand()
	s := struct{ Round, Sum int }{}
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		v, err := coppice.AllReduce(ctx, t, random.IntN(100), coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.Sum += v
	}
	return s.Sum, nil
}
