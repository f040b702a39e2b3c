package breach

import (
	"context"
	"math"

	"github.com/coppice-go/coppice"
)

// roundUnsaved multiplies a vector six times.
func roundUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Norm float64 }{1}
	for range 5 {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		sum, err := coppice.AllReduce(ctx, t, s.Norm*float64(t.Rank()+1), coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.Norm = math.Sqrt(sum)
	}
	return s.Norm, nil
}
