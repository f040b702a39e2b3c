package breach

import (
	"context"
	"math/rand/v2"

	"github.com/coppice-go/coppice"
)

// randomPeer sends a rumor to a random task.
func randomPeer(ctx context.Context, t *coppice.Task) (any, error) {
	expect := make([]int, t.Size())
	to := rand.N(t.Size())
	expect[to]++
	if err := coppice.Send(ctx, t, to, 0, t.Rank()); err != nil {
		return nil, err
	}
	counts, err := coppice.AllGather(ctx, t, expect)
	if err != nil {
		return nil, err
	}
	sum := 0
	for from, c := range counts {
		if c[t.Rank()] > 0 {
			rumor, err := coppice.Recv[int](ctx, t, from, 0)
			if err != nil {
				return nil, err
			}
			sum += rumor
		}
	}
	return sum, nil
}
