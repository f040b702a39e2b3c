package correct

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/coppice-go/coppice"
)

// pageRank ranks pages in rounds, until the ranks change little at all tasks together.
func pageRank(ctx context.Context, t *coppice.Task) (any, error) {
	const pages = 12
	type state struct {
		Round int
		Ranks map[int]float64 // of the task's pages
	}
	s := state{Ranks: map[int]float64{}}
	for p := t.Rank(); p < pages; p += t.Size() {
		s.Ranks[p] = 1.0 / pages
	}
	for delta := 1.0; delta > 1e-3 && s.Round < 10; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		shares := make([][]float64, t.Size())
		for i := range shares {
			shares[i] = make([]float64, pages)
		}
		for _, p := range slices.Sorted(maps.Keys(s.Ranks)) {
			for _, to := range []int{(p + 1) % pages, p * 5 % pages} {
				shares[to%t.Size()][to] += s.Ranks[p] / 2
			}
		}
		incoming, err := coppice.ReduceScatter(ctx, t, shares, coppice.Sum)
		if err != nil {
			return nil, err
		}
		change := 0.0
		for p := t.Rank(); p < pages; p += t.Size() {
			next := 0.15/pages + 0.85*incoming[p]
			change += math.Abs(next - s.Ranks[p])
			s.Ranks[p] = next
		}
		if delta, err = coppice.AllReduce(ctx, t, change, coppice.Sum); err != nil {
			return nil, err
		}
	}
	return s.Ranks, nil
}
