package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// typeByRank gives all tasks a number.
func typeByRank(ctx context.Context, t *coppice.Task) (any, error) {
	if t.Rank() == 0 {
		return coppice.Broadcast(ctx, t, 42)
	}
	return coppice.Broadcast(ctx, t, int64(0))
}
