// Command pi computes π as the area below 4/(1+x²) between 0 and 1: every task
// adds up its share of thin strips, and Reduce adds up the shares at task 0.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/pi
//	go run ./examples/pi
//
// For one number of tasks the result is the same to the last bit in every run: Reduce always combines
// the shares in the same way. With another number of tasks the shares differ, and may round
// differently.
package main

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
)

const strips = 10_000_000

func main() { coppice.Main(pi) }

func pi(ctx context.Context, t *coppice.Task) error {
	sum, err := area(ctx, t, strips)
	if err != nil {
		return err
	}
	if t.Rank() == 0 {
		fmt.Printf("π is about %.12f (strips: %d, tasks: %d)\n", sum, strips, t.Size())
	}
	return nil
}

// area returns, at task 0, the sum of all strips; elsewhere 0. A strip is as high
// as the curve at its middle.
func area(ctx context.Context, t *coppice.Task, strips int) (float64, error) {
	width := 1 / float64(strips)
	sum := 0.0
	for i := t.Rank(); i < strips; i += t.Size() {
		x := (float64(i) + 0.5) * width
		sum += width * 4 / (1 + x*x)
	}
	return coppice.Reduce(ctx, t, sum, coppice.Sum)
}
