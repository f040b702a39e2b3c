package breach

import (
	"context"
	"sync"

	"github.com/coppice-go/coppice"
)

var table struct {
	sync.Mutex
	sums map[int]int
}

// heldLock fills a table that all tasks of a process share.
func heldLock(ctx context.Context, t *coppice.Task) (any, error) {
	table.Lock()
	defer table.Unlock()
	sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
	if err != nil {
		return nil, err
	}
	table.sums = map[int]int{t.Rank(): sum}
	return sum, nil
}
