package breach

import (
	"context"
	"math"
	"sync"

	"github.com/coppice-go/coppice"
)

// lockedSum integrates a function in parts.
func lockedSum(ctx context.Context, t *coppice.Task) (any, error) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	area := 0.0
	for part := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			y := math.Exp(float64(part)) / 3
			mu.Lock()
			area += y
			mu.Unlock()
		}()
	}
	wait.Wait()
	return coppice.AllReduce(ctx, t, area, coppice.Sum)
}
