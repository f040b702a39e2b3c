package correct

import (
	"context"
	"slices"

	"github.com/coppice-go/coppice"
)

// oddEvenSort sorts numbers: neighbours merge what they have in turns.
func oddEvenSort(ctx context.Context, t *coppice.Task) (any, error) {
	mine := make([]int, 5)
	for i := range mine {
		mine[i] = (t.Rank()*13 + i*29) % 37
	}
	slices.Sort(mine)
	for phase := range t.Size() {
		partner := t.Rank() + 1
		if (t.Rank()+phase)%2 == 1 {
			partner = t.Rank() - 1
		}
		if partner < 0 || partner >= t.Size() {
			continue
		}
		if err := coppice.Send(ctx, t, partner, phase, mine); err != nil {
			return nil, err
		}
		other, err := coppice.Recv[[]int](ctx, t, partner, phase)
		if err != nil {
			return nil, err
		}
		both := slices.Concat(mine, other)
		slices.Sort(both)
		if t.Rank() < partner {
			mine = both[:len(mine)]
		} else {
			mine = both[len(other):]
		}
	}
	return mine, nil
}
