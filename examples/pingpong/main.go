// Command pingpong sends messages between neighbours: tasks 0 and 1 play, so do
// 2 and 3, and so on. The ball is a struct, and arrives as one.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/pingpong
//	go run ./examples/pingpong
//
// Alone, or as the last of an odd number, a task has no partner.
package main

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
)

// Ball goes back and forth.
type Ball struct{ Hits, Last int } // how often it was hit, and which task hit it last

const (
	rounds = 1000
	tag    = 0
)

func main() { coppice.Main(play) }

func play(ctx context.Context, t *coppice.Task) error {
	other := t.Rank() ^ 1
	if other >= t.Size() {
		fmt.Printf("task %d has nobody to play with\n", t.Rank())
		return nil
	}
	var ball Ball
	for round := range rounds {
		if round > 0 || t.Rank() > other { // all but the serve answer a ball
			var err error
			if ball, err = coppice.Recv[Ball](ctx, t, other, tag); err != nil {
				return err
			}
		}
		ball = Ball{ball.Hits + 1, t.Rank()}
		if err := coppice.Send(ctx, t, other, tag, ball); err != nil {
			return err
		}
	}
	if t.Rank() > other {
		return nil
	}
	ball, err := coppice.Recv[Ball](ctx, t, other, tag)
	if err != nil {
		return err
	}
	fmt.Printf("tasks %d and %d: %d hits, the last by task %d\n", t.Rank(), other, ball.Hits, ball.Last)
	return nil
}
