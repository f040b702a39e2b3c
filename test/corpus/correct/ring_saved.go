package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// ringSaved passes values on in rounds: in each, what is sent is received.
func ringSaved(ctx context.Context, t *coppice.Task) (any, error) {
	left, right := (t.Rank()+t.Size()-1)%t.Size(), (t.Rank()+1)%t.Size()
	s := struct{ Round, Value int }{Value: t.Rank()}
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		if t.Rank()%2 == 0 {
			if err := coppice.Send(ctx, t, right, 0, s.Value); err != nil {
				return nil, err
			}
			v, err := coppice.Recv[int](ctx, t, left, 0)
			if err != nil {
				return nil, err
			}
			s.Value = v + 1
			continue
		}
		v, err := coppice.Recv[int](ctx, t, left, 0)
		if err != nil {
			return nil, err
		}
		if err := coppice.Send(ctx, t, right, 0, s.Value); err != nil {
			return nil, err
		}
		s.Value = v * 2
	}
	return s.Value, nil
}
