package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// channelTotals adds up integers that goroutines send, in any order, and sorts what they list.
func channelTotals(ctx context.Context, t *coppice.Task) (any, error) {
	type found struct{ part, count int }
	results := make(chan found)
	for part := range 4 {
		go func() { results <- found{part, part*part + t.Rank()} }()
	}
	counts := make([]int, 4)
	total := 0
	for range counts {
		r := <-results
		counts[r.part] = r.count
		total += r.count
	}
	if _, err := coppice.AllReduce(ctx, t, total, coppice.Sum); err != nil {
		return nil, err
	}
	return coppice.AllGather(ctx, t, counts)
}
