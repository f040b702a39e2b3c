package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// receiveFirst passes values to the right.
func receiveFirst(ctx context.Context, t *coppice.Task) (any, error) {
	left, right := (t.Rank()+t.Size()-1)%t.Size(), (t.Rank()+1)%t.Size()
	v, err := coppice.Recv[int](ctx, t, left, 0)
	if err != nil {
		return nil, err
	}
	return v, coppice.Send(ctx, t, right, 0, t.Rank())
}
