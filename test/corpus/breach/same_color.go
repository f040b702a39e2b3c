package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// sameColor adds up in rows, and then in columns, but takes the row's task for both.
func sameColor(ctx context.Context, t *coppice.Task) (any, error) {
	row, err := t.Split(ctx, t.Rank()/2, t.Rank())
	if err != nil {
		return nil, err
	}
	sum, err := coppice.AllReduce(ctx, row, t.Rank(), coppice.Sum)
	if err != nil {
		return nil, err
	}
	if row.Rank() == 0 {
		return coppice.AllReduce(ctx, row, sum, coppice.Sum) // meant for the column
	}
	return sum, nil
}
