package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

func progress(ctx context.Context, t *coppice.Task, rounds int) {
	for i := range rounds {
		_ = coppice.Send(ctx, t, 0, 1, i)
	}
}

// goProgress has the tasks tell task 0 how far they are.
func goProgress(ctx context.Context, t *coppice.Task) (any, error) {
	if t.Rank() > 0 {
		go progress(ctx, t, 3)
	} else {
		for from := 1; from < t.Size(); from++ {
			for range 3 {
				if _, err := coppice.Recv[int](ctx, t, from, 1); err != nil {
					return nil, err
				}
			}
		}
	}
	return coppice.AllReduce(ctx, t, 1, coppice.Sum)
}
