package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// closureUnsaved counts what it adds.
func closureUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round int }{}
	sum := 0
	add := func(v int) { sum += v }
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		v, err := coppice.AllReduce(ctx, t, s.Round+t.Rank(), coppice.Sum)
		if err != nil {
			return nil, err
		}
		add(v)
	}
	return sum, nil
}
