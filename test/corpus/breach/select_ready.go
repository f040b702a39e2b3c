package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// selectReady adds a correction if it is there in time.
func selectReady(ctx context.Context, t *coppice.Task) (any, error) {
	ready := make(chan int, 1)
	go func() { ready <- t.Rank() * 10 }()
	correction := 0
	select {
	case correction = <-ready:
	default:
	}
	return coppice.AllReduce(ctx, t, 1+correction, coppice.Sum)
}
