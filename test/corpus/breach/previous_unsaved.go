package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// previousUnsaved iterates until the value changes little.
func previousUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct {
		Round int
		Value float64
	}{Value: 10}
	previous := 0.0
	for ; s.Round < 20; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		sum, err := coppice.AllReduce(ctx, t, s.Value/float64(2*t.Size()), coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.Value = sum + previous/8
		previous = sum
	}
	return s.Value, nil
}
