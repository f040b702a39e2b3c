package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// butterfly adds up by exchanges with partners at growing distance.
func butterfly(ctx context.Context, t *coppice.Task) (any, error) {
	sum := t.Rank() + 1
	for bit := 1; bit < t.Size(); bit <<= 1 {
		partner := t.Rank() ^ bit
		if partner >= t.Size() {
			continue
		}
		if err := coppice.Send(ctx, t, partner, bit, sum); err != nil {
			return nil, err
		}
		v, err := coppice.Recv[int](ctx, t, partner, bit)
		if err != nil {
			return nil, err
		}
		sum += v
	}
	return sum, nil
}
