package breach

import (
	"context"
	"runtime"

	"github.com/coppice-go/coppice"
)

// processors works in as many parts as the machine has processors.
func processors(ctx context.Context, t *coppice.Task) (any, error) {
	sum := 0
	for part := range runtime.NumCPU() {
		v, err := coppice.AllReduce(ctx, t, part*t.Rank(), coppice.Sum)
		if err != nil {
			return nil, err
		}
		sum += v
	}
	return sum, nil
}
