package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

var sequence int

// packageVariable numbers its messages.
func packageVariable(ctx context.Context, t *coppice.Task) (any, error) {
	for range 3 {
		sequence++
		if err := coppice.Barrier(ctx, t); err != nil {
			return nil, err
		}
	}
	return coppice.AllReduce(ctx, t, sequence, coppice.Max)
}
