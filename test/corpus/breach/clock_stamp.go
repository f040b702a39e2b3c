package breach

import (
	"context"
	"time"

	"github.com/coppice-go/coppice"
)

type header struct {
	Job   string
	Began int64
}

// clockStamp gives all tasks the header of the output.
func clockStamp(ctx context.Context, t *coppice.Task) (any, error) {
	var h header
	if t.Rank() == 0 {
		h = header{Job: "spectrum", Began: time.Now().UnixNano()}
	}
	h, err := coppice.Broadcast(ctx, t, h)
	if err != nil {
		return nil, err
	}
	if err := coppice.Barrier(ctx, t); err != nil {
		return nil, err
	}
	return h, nil
}
