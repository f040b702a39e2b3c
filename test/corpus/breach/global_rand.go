package breach

import (
	"context"
	"math/rand/v2"

	"github.com/coppice-go/coppice"
)

// globalRand walks at random, and adds up where the walks end.
func globalRand(ctx context.Context, t *coppice.Task) (any, error) {
	at := 0
	for range 100 {
		at += rand.IntN(3) - 1
	}
	return coppice.AllReduce(ctx, t, at, coppice.Sum)
}
