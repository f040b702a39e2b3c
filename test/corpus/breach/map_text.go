package breach

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-go/coppice"
)

// mapText has task 0 send its settings as a text.
func mapText(ctx context.Context, t *coppice.Task) (any, error) {
	if t.Rank() > 0 {
		return coppice.Recv[string](ctx, t, 0, 3)
	}
	var b strings.Builder
	for key, value := range map[string]int{"width": 3, "height": 4, "depth": 5, "steps": 6} {
		fmt.Fprintf(&b, "%s=%d\n", key, value)
	}
	return "", coppice.Send(ctx, t, 1, 3, b.String())
}
