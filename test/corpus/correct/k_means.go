package correct

import (
	"context"
	"math"
	"slices"

	"github.com/coppice-go/coppice"
)

// kMeans moves two centers into the middle of their points.
func kMeans(ctx context.Context, t *coppice.Task) (any, error) {
	points, err := coppice.Once(ctx, t, func(context.Context) ([]float64, error) {
		points := make([]float64, 10)
		for i := range points {
			points[i] = float64((t.Rank()*31 + i*17) % 50)
		}
		return points, nil
	})
	if err != nil {
		return nil, err
	}
	first, err := coppice.Broadcast(ctx, t, slices.Clone(points[:2]))
	if err != nil {
		return nil, err
	}
	s := struct {
		Round   int
		Centers []float64
	}{Centers: first}
	sums := make([]float64, 4)
	for ; s.Round < 4; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		clear(sums)
		for _, x := range points {
			c := 0
			if math.Abs(x-s.Centers[1]) < math.Abs(x-s.Centers[0]) {
				c = 1
			}
			sums[2*c] += x
			sums[2*c+1]++
		}
		if sums, err = coppice.AllReduce(ctx, t, sums, coppice.Sum, coppice.Into(sums)); err != nil {
			return nil, err
		}
		s.Centers = slices.Clone(s.Centers)
		for c := range s.Centers {
			if sums[2*c+1] > 0 {
				s.Centers[c] = sums[2*c] / sums[2*c+1]
			}
		}
	}
	return s.Centers, nil
}
