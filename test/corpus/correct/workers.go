package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// workers has task 0 give pieces of work to the others, to each as soon as it has a result.
func workers(ctx context.Context, t *coppice.Task) (any, error) {
	const results, work, pieces = 1, 2, 7
	if t.Rank() > 0 {
		for result := 0; ; {
			if err := coppice.Send(ctx, t, 0, results, result); err != nil {
				return nil, err
			}
			piece, err := coppice.Recv[int](ctx, t, 0, work)
			if err != nil || piece < 0 {
				return nil, err
			}
			result = piece * piece
		}
	}
	sum := 0
	for piece, busy := 0, t.Size()-1; busy > 0; piece++ {
		result, from, err := coppice.RecvAny[int](ctx, t, results)
		if err != nil {
			return nil, err
		}
		sum += result
		next := piece
		if piece >= pieces {
			next, busy = -1, busy-1
		}
		if err := coppice.Send(ctx, t, from, work, next); err != nil {
			return nil, err
		}
	}
	return sum, nil
}
