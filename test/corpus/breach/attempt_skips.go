package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// attemptSkips warms up, but not when it is run again.
func attemptSkips(ctx context.Context, t *coppice.Task) (any, error) {
	if t.Attempt() == 0 {
		if err := coppice.Barrier(ctx, t); err != nil {
			return nil, err
		}
	}
	sum, err := coppice.AllReduce(ctx, t, 1, coppice.Sum)
	if err != nil {
		return nil, err
	}
	return sum, coppice.Barrier(ctx, t)
}
