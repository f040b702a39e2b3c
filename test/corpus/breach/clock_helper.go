package breach

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-go/coppice"
)

func salt() uint64 { return uint64(time.Now().UnixNano()) }

func salted(name string) string { return fmt.Sprintf("%s-%x", name, salt()) }

// clockHelper has task 0 choose a name and tell task 1.
func clockHelper(ctx context.Context, t *coppice.Task) (any, error) {
	if t.Rank() > 0 {
		return coppice.Recv[string](ctx, t, 0, 1)
	}
	name := salted("table")
	return name, coppice.Send(ctx, t, 1, 1, name)
}
