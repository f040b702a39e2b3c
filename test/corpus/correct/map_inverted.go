package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// mapInverted goes through a map, where the order makes no difference.
func mapInverted(ctx context.Context, t *coppice.Task) (any, error) {
	colors := map[int]string{}
	for i := range 9 {
		colors[i] = []string{"red", "green", "blue"}[(i+t.Rank())%3]
	}
	counts := map[string]int{}
	bits, present := 0, make([]bool, 9)
	for i, color := range colors {
		counts[color]++
		bits |= 1 << i
		present[i] = color != "red"
	}
	best := ""
	for color, n := range counts {
		if n > counts[best] || n == counts[best] && color < best {
			best = color
		}
	}
	if _, err := coppice.AllReduce(ctx, t, bits, coppice.Or); err != nil {
		return nil, err
	}
	names, err := coppice.AllGather(ctx, t, best)
	if err != nil {
		return nil, err
	}
	return names, coppice.Barrier(ctx, t)
}
