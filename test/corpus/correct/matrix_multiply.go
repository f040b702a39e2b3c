package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// matrixMultiply is SUMMA on a grid of two by two tasks: in each round a row and a column get a block by broadcasts in
// groups.
func matrixMultiply(ctx context.Context, t *coppice.Task) (any, error) {
	const side = 2
	row, err := t.Split(ctx, t.Rank()/side, t.Rank())
	if err != nil {
		return nil, err
	}
	column, err := t.Split(ctx, t.Rank()%side, t.Rank())
	if err != nil {
		return nil, err
	}
	a, b := float64(t.Rank()+1), float64(2*t.Rank()-1)
	c := 0.0
	for k := range side {
		left := coppice.Go(row, func(row *coppice.Task) (float64, error) { return coppice.Broadcast(ctx, row, a, coppice.Root(k)) })
		above, err := coppice.Broadcast(ctx, column, b, coppice.Root(k))
		if err != nil {
			return nil, err
		}
		across, err := left.Wait(ctx)
		if err != nil {
			return nil, err
		}
		c += across * above
	}
	return c, nil
}
