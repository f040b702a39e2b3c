package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// vectorUnsaved lets heat flow into a rod.
func vectorUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round int }{}
	heat := make([]float64, 4)
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		for i := range heat {
			heat[i] += float64(t.Rank()+i) / 2
		}
		sum, err := coppice.AllReduce(ctx, t, heat, coppice.Sum)
		if err != nil {
			return nil, err
		}
		heat[0] -= sum[0] / 10
	}
	return heat, nil
}
