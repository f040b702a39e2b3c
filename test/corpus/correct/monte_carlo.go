package correct

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coppice-go/coppice"
)

// monteCarlo estimates π with the task's own random numbers, and prints how long it took.
func monteCarlo(ctx context.Context, t *coppice.Task) (any, error) {
	began := time.Now()
	s := struct{ Round, Inside int }{}
	for ; s.Round < 4; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		random := t.Rand()
		inside := 0
		for range 200 {
			x, y := random.Float64(), random.Float64()
			if x*x+y*y < 1 {
				inside++
			}
		}
		all, err := coppice.AllReduce(ctx, t, inside, coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.Inside += all
		if t.Rank() == 0 && time.Since(began) > time.Minute {
			fmt.Fprintln(os.Stderr, "slow: round", s.Round)
		}
	}
	return s.Inside, nil
}
