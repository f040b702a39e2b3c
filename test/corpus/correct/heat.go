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
		Rod   []float64 // with a ghost at each end
	}{Rod: make([]float64, own+2)}
	for i := 1; i <= own; i++ {
		s.Rod[i] = float64(t.Rank()*own + i)
	}
	next := make([]float64, own+2)
	for ; s.Round < rounds; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		if err := exchange(ctx, t, s.Rod); err != nil {
			return nil, err
		}
		for i := 1; i <= own; i++ {
			next[i] = s.Rod[i] + (s.Rod[i-1]-2*s.Rod[i]+s.Rod[i+1])/4
		}
		s.Rod, next = next, s.Rod
	}
	return s.Rod[1 : own+1], nil
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
