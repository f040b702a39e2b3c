package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

type tally struct{ Moves, Hits int }

// structUnsaved plays rounds and counts.
func structUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round, Seed int }{Seed: t.Rank() + 1}
	var count tally
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		s.Seed = s.Seed * 5 % 17
		count.Moves += s.Seed
		hits, err := coppice.AllReduce(ctx, t, s.Seed%2, coppice.Sum)
		if err != nil {
			return nil, err
		}
		count.Hits += hits
	}
	return count, nil
}
