package breach

import (
	"context"
	"time"

	"github.com/coppice-go/coppice"
)

type body struct {
	Round int
	X, V  float64
}

// clockStep moves a body in real time.
func clockStep(ctx context.Context, t *coppice.Task) (any, error) {
	s := body{V: float64(t.Rank() + 1)}
	last := time.Now()
	for ; s.Round < 4; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		now := time.Now()
		s.X += s.V * now.Sub(last).Seconds()
		last = now
		mean, err := coppice.AllReduce(ctx, t, s.X, coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.V = mean / float64(t.Size())
	}
	return s.X, nil
}
