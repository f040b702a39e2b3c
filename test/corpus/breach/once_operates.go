package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// onceOperates reads a number at task 0 and shares it.
func onceOperates(ctx context.Context, t *coppice.Task) (any, error) {
	return coppice.Once(ctx, t, func(ctx context.Context) (int, error) {
		return coppice.Broadcast(ctx, t, 5)
	})
}
