package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// savedAtEnd calls Save at the end of each round, and keeps all in the state.
func savedAtEnd(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round, Sum int }{}
	for s.Round < 5 {
		v, err := coppice.AllReduce(ctx, t, s.Round*10+t.Rank()+s.Sum%3, coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.Sum += v
		s.Round++
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
	}
	return s.Sum, nil
}
