package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// viewCounts gives each live process the same share.
func viewCounts(ctx context.Context, t *coppice.Task) (any, error) {
	share := 100 / len(t.View().Processes)
	sum, err := coppice.AllReduce(ctx, t, share, coppice.Sum)
	if err != nil {
		return nil, err
	}
	return sum, coppice.Barrier(ctx, t)
}
