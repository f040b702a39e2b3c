package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice"
)

func TestMultiply(t *testing.T) {
	for _, c := range []struct{ rows, columns, tasks int }{
		{1, 1, 1},
		{6, 4, 3},
		{7, 3, 4}, // 2, 2, 2 and 1 rows, in some order
		{2, 5, 6}, // some tasks have no row
		{100, 300, 8},
	} {
		t.Run(fmt.Sprintf("%dx%d at %d", c.rows, c.columns, c.tasks), func(t *testing.T) {
			got := make([][]float64, c.tasks)
			err := coppice.Local(t.Context(), c.tasks, func(ctx context.Context, task *coppice.Task) (err error) {
				var matrix, vector []float64
				if task.Rank() == 0 {
					matrix, vector = input(c.rows, c.columns)
				}
				got[task.Rank()], err = multiply(ctx, task, matrix, vector)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if want := sums(c.rows, c.columns); !slices.Equal(got[0], want) {
				t.Errorf("product %v, want %v", got[0], want)
			}
			for rank, product := range got[1:] {
				if product != nil {
					t.Errorf("task %d has %v, want nil", rank+1, product)
				}
			}
		})
	}
}

// sums returns the product of the input: row i adds up to i·columns + (0 + 1 + …).
func sums(rows, columns int) (all []float64) {
	for i := range rows {
		all = append(all, float64(i*columns+columns*(columns-1)/2))
	}
	return all
}

// The vector is not all ones here, and the matrix has an order of its own.
func TestTimes(t *testing.T) {
	got := times([]float64{1, 2, 3, 4, 5, 6}, []float64{1, 10, 100})
	if want := []float64{321, 654}; !slices.Equal(got, want) {
		t.Errorf("product %v, want %v", got, want)
	}
}
