package correct

import (
	"context"
	"sync"

	"github.com/coppice-go/coppice"
)

// parallelParts computes with goroutines that do not touch the task; results are kept by index.
func parallelParts(ctx context.Context, t *coppice.Task) (any, error) {
	sums := make([]float64, 4)
	var wait sync.WaitGroup
	for part := range sums {
		wait.Go(func() {
			for i := range 100 {
				sums[part] += float64(i*part+t.Rank()) / 7
			}
		})
	}
	wait.Wait()
	total := 0.0
	for _, sum := range sums {
		total += sum
	}
	return coppice.AllReduce(ctx, t, total, coppice.Sum)
}
