package correct

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coppice-go/coppice"
)

type timing struct{ compute, wait time.Duration }

// timedRounds measures its parts, and reports what took how long.
func timedRounds(ctx context.Context, t *coppice.Task) (any, error) {
	var spent timing
	s := struct{ Round, Sum int }{}
	last := time.Now()
	for ; s.Round < 4; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		began := time.Now()
		v := 0
		for i := range 100 {
			v += i * t.Rank() % 7
		}
		spent.compute += time.Since(began)
		began = time.Now()
		sum, err := coppice.AllReduce(ctx, t, v, coppice.Sum)
		if err != nil {
			return nil, err
		}
		spent.wait += time.Since(began)
		s.Sum += sum
		if time.Since(last) > time.Second {
			t.Logger().Info("alive", "round", s.Round, "sum", s.Sum)
			last = time.Now()
		}
	}
	fmt.Fprintln(os.Stderr, "task", t.Rank(), "computed", spent.compute, "and waited", spent.wait)
	return s.Sum, nil
}
