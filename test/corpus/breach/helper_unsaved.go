package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

type stage struct{ Round int }

func checkpoint(ctx context.Context, t *coppice.Task, s *stage) error { return coppice.Save(ctx, t, s) }

// helperUnsaved adds up rounds.
func helperUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	var s stage
	best := 0
	for ; s.Round < 5; s.Round++ {
		if err := checkpoint(ctx, t, &s); err != nil {
			return nil, err
		}
		v, err := coppice.AllReduce(ctx, t, (s.Round*7+t.Rank())%5, coppice.Max)
		if err != nil {
			return nil, err
		}
		best = best*10 + v
	}
	return best, nil
}
