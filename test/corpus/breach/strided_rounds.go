package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// stridedRounds takes every third of ten items.
func stridedRounds(ctx context.Context, t *coppice.Task) (any, error) {
	most := 0
	for i := t.Rank(); i < 10; i += t.Size() {
		v, err := coppice.AllReduce(ctx, t, i*i%7, coppice.Max)
		if err != nil {
			return nil, err
		}
		most = max(most, v)
	}
	return most, nil
}
