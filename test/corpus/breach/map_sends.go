package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// mapSends has task 0 give out parts of a table.
func mapSends(ctx context.Context, t *coppice.Task) (any, error) {
	if t.Rank() > 0 {
		a, err := coppice.Recv[string](ctx, t, 0, 0)
		if err != nil {
			return nil, err
		}
		b, err := coppice.Recv[string](ctx, t, 0, 0)
		return a + b, err
	}
	parts := map[string]int{"ash": 1, "beech": 2, "elm": 3, "fir": 1, "larch": 2, "oak": 3}
	for name, to := range parts {
		if err := coppice.Send(ctx, t, to, 0, name); err != nil {
			return nil, err
		}
	}
	return "", nil
}
