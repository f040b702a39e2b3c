// Command histogram counts how many numbers of all tasks fall in each of ten equal ranges. No task ever
// has the numbers of another: AllReduce gives all tasks the smallest and the largest number, then the
// count for each range.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/histogram
//	go run ./examples/histogram
//
// Every task draws its numbers from a normal distribution with Task.Rand, so they
// are the same in every run with as many tasks.
package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/coppice-go/coppice"
)

const (
	ranges  = 10
	samples = 100_000 // of each task
)

func main() { coppice.Main(draw) }

func draw(ctx context.Context, t *coppice.Task) error {
	numbers := make([]float64, samples)
	for i := range numbers {
		numbers[i] = t.Rand().NormFloat64()
	}
	h, err := count(ctx, t, numbers)
	if err != nil {
		return err
	}
	if t.Rank() == 0 {
		fmt.Print(h)
	}
	return nil
}

// histogram holds the counts of the ranges between low and high.
type histogram struct {
	low, high float64
	counts    []int
}

// count returns, at all tasks, the histogram of the numbers of all of them.
func count(ctx context.Context, t *coppice.Task, numbers []float64) (h histogram, err error) {
	// One operation for both ends: the largest is the smallest of the negatives.
	ends := []float64{math.Inf(1), math.Inf(1)}
	for _, x := range numbers {
		ends[0], ends[1] = min(ends[0], x), min(ends[1], -x)
	}
	if ends, err = coppice.AllReduce(ctx, t, ends, coppice.Min); err != nil {
		return h, err
	}
	h.low, h.high = ends[0], -ends[1]
	mine := make([]int, ranges)
	for _, x := range numbers {
		mine[h.rangeOf(x)]++
	}
	h.counts, err = coppice.AllReduce(ctx, t, mine, coppice.Sum)
	return h, err
}

// rangeOf returns the range that a number falls in; the largest falls in the last.
func (h histogram) rangeOf(x float64) int {
	if h.high == h.low {
		return 0
	}
	return min(int((x-h.low)/(h.high-h.low)*ranges), ranges-1)
}

func (h histogram) String() string {
	var b strings.Builder
	most := max(slices.Max(h.counts), 1)
	width := (h.high - h.low) / ranges
	for i, n := range h.counts {
		stars := (n*50 + most - 1) / most // at least one, where there is anything
		fmt.Fprintf(&b, "%6.2f %7d %s\n", h.low+float64(i)*width, n, strings.Repeat("*", stars))
	}
	return b.String()
}
