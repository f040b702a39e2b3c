package correct

import (
	"context"
	"math/rand/v2"

	"github.com/coppice-go/coppice"
)

// seededWalk draws from generators with fixed seeds, and from the task's.
func seededWalk(ctx context.Context, t *coppice.Task) (any, error) {
	random := rand.New(rand.NewPCG(42, uint64(t.Rank())))
	at := 0
	for range 50 {
		at += random.IntN(3) - 1
	}
	at += t.Rand().IntN(10)
	cards := []int{1, 2, 3, 4, 5, 6}
	random.Shuffle(len(cards), func(i, j int) { cards[i], cards[j] = cards[j], cards[i] })
	sum, err := coppice.AllReduce(ctx, t, at+cards[0], coppice.Sum)
	if err != nil {
		return nil, err
	}
	return sum, coppice.Barrier(ctx, t)
}
