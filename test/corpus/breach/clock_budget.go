package breach

import (
	"context"
	"math"
	"time"

	"github.com/coppice-go/coppice"
)

// clockBudget improves a guess as long as there is time.
func clockBudget(ctx context.Context, t *coppice.Task) (any, error) {
	began := time.Now()
	guess := 1.0
	for time.Since(began) < 3*time.Millisecond {
		sum, err := coppice.AllReduce(ctx, t, guess/float64(t.Rank()+1), coppice.Sum)
		if err != nil {
			return nil, err
		}
		guess = math.Sqrt(sum)
	}
	return guess, nil
}
