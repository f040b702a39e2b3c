package breach

import (
	"context"
	"time"

	"github.com/coppice-go/coppice"
)

type ticker interface{ Tick() int64 }

type wallClock struct{}

func (wallClock) Tick() int64 { return time.Now().UnixNano() }

// sourceBehind stamps what it sends.
func sourceBehind(ctx context.Context, t *coppice.Task) (any, error) {
	var source ticker = wallClock{}
	return coppice.Broadcast(ctx, t, source.Tick())
}
