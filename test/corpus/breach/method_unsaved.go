package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

type walker struct {
	now struct{ Round, At int }
	far int
}

func (w *walker) move(by int) {
	w.now.At += by
	w.far = max(w.far, w.now.At)
}

// methodUnsaved walks, and remembers how far it came.
func methodUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	var w walker
	for ; w.now.Round < 5; w.now.Round++ {
		if err := coppice.Save(ctx, t, &w.now); err != nil {
			return nil, err
		}
		by, err := coppice.AllReduce(ctx, t, (t.Rank()+1)*(2-w.now.Round), coppice.Sum)
		if err != nil {
			return nil, err
		}
		w.move(by)
	}
	return w.far, nil
}
