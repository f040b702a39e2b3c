// Command heat lets heat flow through a plate. Each task has some rows of it; neighbours exchange the rows at their borders before each
// step, and Save before it lets a task that is run again continue there.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/heat
//	go run ./examples/heat
package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice"
)

const (
	height, width = 256, 256
	steps         = 200
)

func main() {
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		rows, err := flow(ctx, t, height, width, steps)
		if err != nil {
			return err
		}
		sum, hottest := 0.0, 0.0
		for _, row := range rows {
			hottest = max(hottest, slices.Max(row))
			for _, x := range row {
				sum += x
			}
		}
		if sum, err = coppice.Reduce(ctx, t, sum, coppice.Sum); err != nil {
			return err
		}
		hottest, err = coppice.Reduce(ctx, t, hottest, coppice.Max)
		if err == nil && t.Rank() == 0 {
			fmt.Printf("after %d steps the mean is %.4f, the maximum %.4f\n", steps, sum/(height*width), hottest)
		}
		return err
	})
}

// plate is all that changes from step to step.
type plate struct {
	Step int
	Rows [][]float64 // of the task
}

// flow returns the task's rows after some steps. The border of the plate stays as it is.
func flow(ctx context.Context, t *coppice.Task, height, width, steps int) ([][]float64, error) {
	if t.Size() > height {
		return nil, fmt.Errorf("%d tasks; allowed: up to %d, one for each row", t.Size(), height)
	}
	first, end := height*t.Rank()/t.Size(), height*(t.Rank()+1)/t.Size()
	var s plate
	for y := first; y < end; y++ {
		row := make([]float64, width)
		if y == 0 { // the upper border is hot
			row = slices.Repeat([]float64{100}, width)
		}
		s.Rows = append(s.Rows, row)
	}
	for ; s.Step < steps; s.Step++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		above, below, err := exchange(ctx, t, s.Rows)
		if err != nil {
			return nil, err
		}
		all := slices.Concat([][]float64{above}, s.Rows, [][]float64{below})
		next := make([][]float64, len(s.Rows))
		for i, row := range s.Rows {
			next[i] = slices.Clone(row)
			if y := first + i; y == 0 || y == height-1 {
				continue
			}
			for x := 1; x < width-1; x++ {
				next[i][x] = (all[i][x] + all[i+2][x] + row[x-1] + row[x+1]) / 4
			}
		}
		s.Rows = next
	}
	return s.Rows, nil
}

// exchange sends the first and the last row to the neighbours, and returns theirs; nil at the borders of the plate.
func exchange(ctx context.Context, t *coppice.Task, rows [][]float64) (above, below []float64, err error) {
	const up, down = 0, 1
	last := t.Rank() == t.Size()-1
	if t.Rank() > 0 {
		if err := coppice.Send(ctx, t, t.Rank()-1, up, rows[0]); err != nil {
			return nil, nil, err
		}
	}
	if !last {
		if err := coppice.Send(ctx, t, t.Rank()+1, down, rows[len(rows)-1]); err != nil {
			return nil, nil, err
		}
		if below, err = coppice.Recv[[]float64](ctx, t, t.Rank()+1, up); err != nil {
			return nil, nil, err
		}
	}
	if t.Rank() > 0 {
		above, err = coppice.Recv[[]float64](ctx, t, t.Rank()-1, down)
	}
	return above, below, err
}
