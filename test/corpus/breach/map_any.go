package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// mapAny has task 0 choose one of the idle machines.
func mapAny(ctx context.Context, t *coppice.Task) (any, error) {
	idle := map[string]bool{"n1": true, "n2": true, "n3": true, "n4": true, "n5": true}
	chosen := ""
	for name := range idle {
		chosen = name
		break
	}
	return coppice.Broadcast(ctx, t, chosen)
}
