package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// lengthsDiffer adds up what the tasks have.
func lengthsDiffer(ctx context.Context, t *coppice.Task) (any, error) {
	mine := make([]float64, 10/t.Size()+t.Rank()%2)
	for i := range mine {
		mine[i] = float64(i)
	}
	return coppice.AllReduce(ctx, t, mine, coppice.Sum)
}
