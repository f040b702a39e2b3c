package breach

import (
	"context"
	"math"

	"github.com/coppice-go/coppice"
)

// mapFloats adds up what accounts hold.
func mapFloats(ctx context.Context, t *coppice.Task) (any, error) {
	accounts := map[int]float64{}
	for i := range 50 {
		accounts[i] = math.Pow(1.7, float64(i)) / float64(t.Rank()+3)
	}
	sum := 0.0
	for _, x := range accounts {
		sum += x
	}
	return coppice.AllReduce(ctx, t, sum, coppice.Sum)
}
