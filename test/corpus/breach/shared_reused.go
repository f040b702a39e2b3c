package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// sharedReused sums vectors, without copies.
func sharedReused(ctx context.Context, t *coppice.Task) (any, error) {
	vector := make([]int, 4)
	last := 0
	for round := range 4 {
		for i := range vector {
			vector[i] = round*10 + i + t.Rank()
		}
		all, err := coppice.AllGather(ctx, t, vector, coppice.Shared())
		if err != nil {
			return nil, err
		}
		last = last*3 + all[0][0] + all[t.Size()-1][3]
	}
	return last, nil
}
