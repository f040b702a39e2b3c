package breach

import (
	"context"
	"math/rand/v2"

	"github.com/coppice-go/coppice"
)

// globalShuffle deals cards.
func globalShuffle(ctx context.Context, t *coppice.Task) (any, error) {
	var hands [][]int
	if t.Rank() == 0 {
		cards := make([]int, 30)
		for i := range cards {
			cards[i] = i
		}
		rand.Shuffle(len(cards), func(i, j int) { cards[i], cards[j] = cards[j], cards[i] })
		for i := range t.Size() {
			hands = append(hands, cards[i*10:(i+1)*10])
		}
	}
	return coppice.Scatter(ctx, t, hands)
}
