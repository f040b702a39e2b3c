package correct

import (
	"context"
	"slices"

	"github.com/coppice-go/coppice"
)

// pivotOwner eliminates: in each step the task that has the row broadcasts it.
func pivotOwner(ctx context.Context, t *coppice.Task) (any, error) {
	const n = 6
	own := map[int][]float64{}
	for i := t.Rank(); i < n; i += t.Size() {
		own[i] = make([]float64, n)
		for j := range n {
			own[i][j] = 1 / float64(i+j+1)
			if i == j {
				own[i][j] += 2
			}
		}
	}
	for k := range n {
		pivot, err := coppice.Broadcast(ctx, t, slices.Clone(own[k]), coppice.Root(k%t.Size()))
		if err != nil {
			return nil, err
		}
		for i := t.Rank(); i < n; i += t.Size() {
			if i <= k {
				continue
			}
			factor := own[i][k] / pivot[k]
			for j := k; j < n; j++ {
				own[i][j] -= factor * pivot[j]
			}
		}
	}
	return own, nil
}
