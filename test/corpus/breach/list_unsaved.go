package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// listUnsaved keeps the residuals of all rounds.
func listUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Round int }{}
	var residuals []int
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		r, err := coppice.AllReduce(ctx, t, 100/(s.Round+t.Rank()+1), coppice.Max)
		if err != nil {
			return nil, err
		}
		residuals = append(residuals, r)
	}
	return residuals, nil
}
