package breach

import (
	"context"
	"fmt"
	"os"

	"github.com/coppice-go/coppice"
)

// processNumber has each task tell the next where its scratch file is.
func processNumber(ctx context.Context, t *coppice.Task) (any, error) {
	name := fmt.Sprintf("scratch-%d-%d", os.Getpid(), t.Rank())
	if err := coppice.Send(ctx, t, (t.Rank()+1)%t.Size(), 0, name); err != nil {
		return nil, err
	}
	got, err := coppice.Recv[string](ctx, t, (t.Rank()+t.Size()-1)%t.Size(), 0)
	return len(got), err
}
