package breach

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/coppice-go/coppice"
)

// clockSeed estimates π with random points.
func clockSeed(ctx context.Context, t *coppice.Task) (any, error) {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(t.Rank())))
	inside := 0
	for range 1000 {
		x, y := random.Float64(), random.Float64()
		if x*x+y*y < 1 {
			inside++
		}
	}
	return coppice.AllReduce(ctx, t, inside, coppice.Sum)
}
