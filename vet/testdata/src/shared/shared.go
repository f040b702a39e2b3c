package shared

import (
	"context"

	"github.com/coppice-go/coppice"
)

func fresh(ctx context.Context, t *coppice.Task) error {
	for round := range 3 {
		room := make([]int, 4)
		room[0] = round
		if _, err := coppice.AllReduce(ctx, t, room, coppice.Sum, coppice.Shared()); err != nil {
			return err
		}
	}
	return nil
}

func fill(room []int, v int) {
	for i := range room {
		room[i] = v
	}
}

func filled(ctx context.Context, t *coppice.Task) error {
	room := make([]int, 4)
	for round := range 3 {
		fill(room, round) // want `memory that AllReduce was lent with Shared .*\[shared\]`
		if _, err := coppice.AllReduce(ctx, t, room, coppice.Sum, coppice.Shared()); err != nil {
			return err
		}
	}
	return nil
}

func futures(ctx context.Context, t *coppice.Task) (int, error) {
	s := struct{ Round int }{}
	sum := coppice.Go(t, func(t *coppice.Task) (int, error) { return coppice.AllReduce(ctx, t, 1, coppice.Sum) })
	if err := coppice.Save(ctx, t, &s); err != nil { // want `Save is called before the future of Go .*\[save\]`
		return 0, err
	}
	return sum.Wait(ctx)
}
