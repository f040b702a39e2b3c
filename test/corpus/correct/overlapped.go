package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// overlapped lets two sums and a barrier go on beside each other, on forks.
func overlapped(ctx context.Context, t *coppice.Task) (any, error) {
	var sums []*coppice.Future[int]
	for power := range 3 {
		sums = append(sums, coppice.Go(t, func(t *coppice.Task) (int, error) {
			v := 1
			for range power {
				v *= t.Rank() + 1
			}
			return coppice.AllReduce(ctx, t, v, coppice.Sum)
		}))
	}
	fork := t.Fork()
	done := make(chan struct{})
	var arrived error
	go func() {
		defer close(done)
		arrived = coppice.Barrier(ctx, fork)
	}()
	product, err := coppice.AllReduce(ctx, t, t.Rank()+2, coppice.Product)
	if err != nil {
		return nil, err
	}
	for _, sum := range sums {
		v, err := sum.Wait(ctx)
		if err != nil {
			return nil, err
		}
		product = product*10 + v
	}
	<-done
	return product, arrived
}
