package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// totalUnsaved adds up ten rounds.
func totalUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round int }{}
	total := 0
	for ; s.Round < 6; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		sum, err := coppice.AllReduce(ctx, t, s.Round*t.Rank(), coppice.Sum)
		if err != nil {
			return nil, err
		}
		total += sum
	}
	return total, nil
}
