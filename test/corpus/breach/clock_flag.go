package breach

import (
	"context"
	"time"

	"github.com/coppice-go/coppice"
)

// clockFlag stops all tasks when task 0 has had enough.
func clockFlag(ctx context.Context, t *coppice.Task) (any, error) {
	deadline := time.Now().Add(2 * time.Millisecond)
	sum := 0
	for stop := 0; stop == 0; {
		late := 0
		if time.Now().After(deadline) {
			late = 1
		}
		var err error
		if stop, err = coppice.AllReduce(ctx, t, late, coppice.Max); err != nil {
			return nil, err
		}
		sum++
	}
	return sum, nil
}
