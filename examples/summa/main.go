// Command summa multiplies matrices that are cut into blocks, one for each task of a square grid. In each round one block of every row of the
// grid goes to the tasks of the row, and one of every column to those of the column; Go brings the blocks of the next round while the task
// multiplies. The algorithm is SUMMA (van de Geijn and Watts, 1997).
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/summa
//	go run ./cmd/coppice run -n 9 -- go run ./examples/summa
package main

import (
	"context"
	"fmt"
	"math"

	"github.com/coppice-go/coppice"
)

const side = 120 // of a block

func main() {
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		c, err := multiply(ctx, t, side, func(i, j int) float64 { return float64(i + j) }, func(i, j int) float64 { return float64(i - 2*j) })
		if err != nil {
			return err
		}
		trace := 0.0
		if grid := root(t.Size()); t.Rank()%(grid+1) == 0 { // a block of the diagonal
			for i := range side {
				trace += c[i*side+i]
			}
		}
		trace, err = coppice.Reduce(ctx, t, trace, coppice.Sum)
		if err == nil && t.Rank() == 0 {
			fmt.Printf("the trace of the product is %.0f\n", trace)
		}
		return err
	})
}

// root is the side of a grid of so many tasks.
func root(tasks int) int { return int(math.Round(math.Sqrt(float64(tasks)))) }

// multiply returns the task's block of the product of two matrices, row by row.
func multiply(ctx context.Context, t *coppice.Task, side int, a, b func(i, j int) float64) ([]float64, error) {
	grid := root(t.Size())
	if grid*grid != t.Size() {
		return nil, fmt.Errorf("%d tasks; allowed: a square, such as 4, 9 or 16", t.Size())
	}
	y, x := t.Rank()/grid, t.Rank()%grid
	row, err := t.Split(ctx, y, x)
	if err != nil {
		return nil, err
	}
	column, err := t.Split(ctx, x, y)
	if err != nil {
		return nil, err
	}
	mineA, mineB, c := block(y, x, side, a), block(y, x, side, b), make([]float64, side*side)
	bring := func(k int) (left, above *coppice.Future[[]float64]) {
		from := func(group *coppice.Task, mine []float64) *coppice.Future[[]float64] {
			return coppice.Go(group, func(g *coppice.Task) ([]float64, error) { return coppice.Broadcast(ctx, g, mine, coppice.Root(k)) })
		}
		return from(row, mineA), from(column, mineB)
	}
	left, above := bring(0)
	for k := range grid {
		nowA, err := left.Wait(ctx)
		if err != nil {
			return nil, err
		}
		nowB, err := above.Wait(ctx)
		if err != nil {
			return nil, err
		}
		if k+1 < grid {
			left, above = bring(k + 1)
		}
		add(c, nowA, nowB, side)
	}
	return c, nil
}

// block returns a block of a matrix.
func block(y, x, side int, of func(i, j int) float64) []float64 {
	b := make([]float64, side*side)
	for i := range side {
		for j := range side {
			b[i*side+j] = of(y*side+i, x*side+j)
		}
	}
	return b
}

// add adds the product of a and b to c.
func add(c, a, b []float64, side int) {
	for i := range side {
		for k := range side {
			for j := range side {
				c[i*side+j] += a[i*side+k] * b[k*side+j]
			}
		}
	}
}
