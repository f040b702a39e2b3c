package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// messageType sends a temperature.
func messageType(ctx context.Context, t *coppice.Task) (any, error) {
	const temperature = 4
	if t.Rank() == 0 {
		return 0.0, coppice.Send(ctx, t, 1, temperature, 21)
	}
	return coppice.Recv[float64](ctx, t, 0, temperature)
}
