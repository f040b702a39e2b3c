package breach

import (
	"context"
	"sync"

	"github.com/coppice-go/coppice"
)

var (
	sequence     int
	sequenceLock sync.Mutex
)

// packageVariable numbers its messages.
func packageVariable(ctx context.Context, t *coppice.Task) (any, error) {
	last := 0
	for range 3 {
		sequenceLock.Lock()
		sequence++
		last = sequence
		sequenceLock.Unlock()
		if err := coppice.Barrier(ctx, t); err != nil {
			return nil, err
		}
	}
	return coppice.AllReduce(ctx, t, last, coppice.Max)
}
