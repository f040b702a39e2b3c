package breach

import (
	"context"
	"errors"
	"sync"

	"github.com/coppice-go/coppice"
)

// goSends exchanges with all other tasks at once.
func goSends(ctx context.Context, t *coppice.Task) (any, error) {
	var wait sync.WaitGroup
	errs := make([]error, t.Size())
	for to := range t.Size() {
		wait.Go(func() { errs[to] = coppice.Send(ctx, t, to, 0, t.Rank()) })
	}
	wait.Wait()
	sum := 0
	for from := range t.Size() {
		v, err := coppice.Recv[int](ctx, t, from, 0)
		if err != nil {
			return nil, err
		}
		sum += v * (from + 1)
	}
	return sum, errors.Join(errs...)
}
