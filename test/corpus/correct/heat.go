package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// heat lets heat flow through a rod that is cut into parts; neighbours exchange their ends.
func heat(ctx context.Context, t *coppice.Task) (any, error) {
	const own, rounds = 6, 5
	s := struct {
		Round int
		Rod   []float64
	}{Rod: make([]float64, own)}
	for i := range s.Rod {
		s.Rod[i] = float64(t.Rank()*own + i + 1)
	}
	now := make([]float64, own+2) // with a ghost at each end, which is not saved
	for ; s.Round < rounds; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		copy(now[1:], s.Rod)
		if err := exchange(ctx, t, now); err != nil {
			return nil, err
		}
		for i := range s.Rod {
			s.Rod[i] = now[i+1] + (now[i]-2*now[i+1]+now[i+2])/4
		}
	}
	return s.Rod, nil
}

// exchange fills the ghosts of a rod with the ends of the neighbours.
func exchange(ctx context.Context, t *coppice.Task, rod []float64) (err error) {
	const left, right = 1, 2
	n := len(rod)
	if t.Rank() > 0 {
		if err := coppice.Send(ctx, t, t.Rank()-1, left, rod[1]); err != nil {
			return err
		}
	}
	if t.Rank() < t.Size()-1 {
		if err := coppice.Send(ctx, t, t.Rank()+1, right, rod[n-2]); err != nil {
			return err
		}
		if rod[n-1], err = coppice.Recv[float64](ctx, t, t.Rank()+1, left); err != nil {
			return err
		}
	}
	if t.Rank() > 0 {
		rod[0], err = coppice.Recv[float64](ctx, t, t.Rank()-1, right)
	}
	return err
}
