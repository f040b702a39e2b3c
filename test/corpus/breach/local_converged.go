package breach

import (
	"context"
	"math"

	"github.com/coppice-go/coppice"
)

// localConverged relaxes until the error is small.
func localConverged(ctx context.Context, t *coppice.Task) (any, error) {
	x := float64(t.Rank()) * 100
	for change := 1.0; change > 0.5; {
		sum, err := coppice.AllReduce(ctx, t, x, coppice.Sum)
		if err != nil {
			return nil, err
		}
		next := (x + sum/float64(t.Size())) / 2
		change = math.Abs(next - x)
		x = next
	}
	return x, nil
}
