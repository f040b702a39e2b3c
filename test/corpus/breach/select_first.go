package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// selectFirst asks two sources, and takes the answer of the faster one.
func selectFirst(ctx context.Context, t *coppice.Task) (any, error) {
	near, far := make(chan string, 1), make(chan string, 1)
	go func() { near <- "near" }()
	go func() { far <- "far" }()
	answer := ""
	select {
	case answer = <-near:
	case answer = <-far:
	}
	return coppice.AllGather(ctx, t, answer)
}
