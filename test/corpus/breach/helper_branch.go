package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

func announce(ctx context.Context, t *coppice.Task, leader bool) error {
	if leader {
		return coppice.Barrier(ctx, t)
	}
	return nil
}

// helperBranch has the leader say that all are ready.
func helperBranch(ctx context.Context, t *coppice.Task) (any, error) {
	return t.Rank(), announce(ctx, t, t.Rank() == 0)
}
