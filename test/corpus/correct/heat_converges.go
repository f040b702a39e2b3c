package correct

import (
	"context"
	"math"

	"github.com/coppice-go/coppice"
)

// heatConverges is Jacobi's method until the largest change of all tasks is small.
func heatConverges(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct {
		Round int
		X     []float64
	}{X: make([]float64, 4)}
	next := make([]float64, 4)
	for change := 1.0; change > 0.1 && s.Round < 12; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		grid := s.X
		sum, err := coppice.AllReduce(ctx, t, grid[0]+grid[3], coppice.Sum)
		if err != nil {
			return nil, err
		}
		mine := 0.0
		for i := range grid {
			next[i] = (grid[i] + sum/8 + float64(t.Rank()+i)) / 2.5
			mine = max(mine, math.Abs(next[i]-grid[i]))
		}
		if change, err = coppice.AllReduce(ctx, t, mine, coppice.Max); err != nil {
			return nil, err
		}
		s.X, next = next, grid
	}
	return s.X, nil
}
