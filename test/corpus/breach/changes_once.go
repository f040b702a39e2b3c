package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// changesOnce ages points that were read once.
func changesOnce(ctx context.Context, t *coppice.Task) (any, error) {
	points, err := coppice.Once(ctx, t, func(context.Context) ([]int, error) { return []int{t.Rank(), 2, 3}, nil })
	if err != nil {
		return nil, err
	}
	s := struct{ Round, Sum int }{}
	for ; s.Round < 4; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		points[s.Round%3] += s.Round + 1
		v, err := coppice.AllReduce(ctx, t, points[0]+points[1], coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.Sum += v
	}
	return s.Sum, nil
}
