package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// masterWorker gives out jobs in turn: the master receives in the order in which it has given them.
func masterWorker(ctx context.Context, t *coppice.Task) (any, error) {
	const job, result, jobs = 1, 2, 8
	workers := t.Size() - 1
	if t.Rank() > 0 {
		for i := t.Rank() - 1; i < jobs; i += workers {
			n, err := coppice.Recv[int](ctx, t, 0, job)
			if err != nil {
				return nil, err
			}
			if err := coppice.Send(ctx, t, 0, result, n*n); err != nil {
				return nil, err
			}
		}
		return nil, coppice.Barrier(ctx, t)
	}
	for i := range jobs {
		if err := coppice.Send(ctx, t, 1+i%workers, job, i+10); err != nil {
			return nil, err
		}
	}
	squares := make([]int, jobs)
	for i := range squares {
		var err error
		if squares[i], err = coppice.Recv[int](ctx, t, 1+i%workers, result); err != nil {
			return nil, err
		}
	}
	return squares, coppice.Barrier(ctx, t)
}
