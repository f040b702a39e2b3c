package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// dropsError saves when it can.
func dropsError(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round, Sum int }{}
	for ; s.Round < 3; s.Round++ {
		_ = coppice.Save(ctx, t, &s)
		v, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.Sum += v
	}
	return s.Sum, nil
}
