package breach

import (
	"context"
	"time"

	"github.com/coppice-go/coppice"
)

// selectTimeout waits a moment for a result, and reports if it is late.
func selectTimeout(ctx context.Context, t *coppice.Task) (any, error) {
	sum := coppice.Go(t, func(t *coppice.Task) (int, error) { return coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum) })
	late := 0
	select {
	case <-sum.Done():
	case <-time.After(50 * time.Microsecond):
		n, err := coppice.AllReduce(ctx, t, 1, coppice.Sum)
		if err != nil {
			return nil, err
		}
		late = n
	}
	v, err := sum.Wait(ctx)
	return v + late, err
}
