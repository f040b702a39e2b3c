package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// firstAnswer searches from several places at once.
func firstAnswer(ctx context.Context, t *coppice.Task) (any, error) {
	found := make(chan int, 4)
	for start := range 4 {
		go func() {
			x := start*1000 + 1
			for x%97 != t.Rank() {
				x++
			}
			found <- x
		}()
	}
	return coppice.AllGather(ctx, t, <-found)
}
