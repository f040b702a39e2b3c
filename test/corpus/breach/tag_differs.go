package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// tagDiffers sends a number around.
func tagDiffers(ctx context.Context, t *coppice.Task) (any, error) {
	if t.Rank() == 0 {
		if err := coppice.Send(ctx, t, 1, 7, 1); err != nil {
			return nil, err
		}
		return coppice.Recv[int](ctx, t, 1, 8)
	}
	v, err := coppice.Recv[int](ctx, t, 0, 9)
	if err != nil {
		return nil, err
	}
	return v, coppice.Send(ctx, t, 0, 8, v+1)
}
