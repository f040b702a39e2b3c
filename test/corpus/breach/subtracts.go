package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// subtracts takes from the first what the others have.
func subtracts(ctx context.Context, t *coppice.Task) (any, error) {
	return coppice.AllReduceFunc(ctx, t, 100>>t.Rank(), func(a, b int) int { return a - b })
}
