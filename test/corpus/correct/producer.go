package correct

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
)

// producer reads lines in a goroutine of its own, which alone sends them.
func producer(ctx context.Context, t *coppice.Task) (any, error) {
	lines := make(chan string, 2)
	go func() {
		defer close(lines)
		for i := range 6 {
			lines <- fmt.Sprintf("line %d of task %d", i, t.Rank())
		}
	}()
	text := ""
	for line := range lines {
		text += line + "\n"
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	return coppice.AllGather(ctx, t, text)
}
