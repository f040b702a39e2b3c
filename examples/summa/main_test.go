package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

func a(i, j int) float64 { return float64(3*i - j + 1) }
func b(i, j int) float64 { return float64(i*j - 2) }

// serial is a block of the product, of whole numbers.
func serial(rank, grid, side int) []float64 {
	return block(rank/grid, rank%grid, side, func(i, j int) (sum float64) {
		for k := range grid * side {
			sum += a(i, k) * b(k, j)
		}
		return sum
	})
}

func TestSurvives(t *testing.T) {
	const side = 3
	coppicetest.Survives(t, 4, func(ctx context.Context, task *coppice.Task) ([]float64, error) {
		c, err := multiply(ctx, task, side, a, b)
		if want := serial(task.Rank(), 2, side); err == nil && !slices.Equal(c, want) {
			t.Errorf("task %d has %v, want %v", task.Rank(), c, want)
		}
		return c, err
	})
}

func TestNineTasks(t *testing.T) {
	err := coppice.Local(t.Context(), 9, func(ctx context.Context, task *coppice.Task) error {
		c, err := multiply(ctx, task, 2, a, b)
		if want := serial(task.Rank(), 3, 2); err == nil && !slices.Equal(c, want) {
			t.Errorf("task %d has %v, want %v", task.Rank(), c, want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	err = coppice.Local(t.Context(), 3, func(ctx context.Context, task *coppice.Task) error {
		_, err := multiply(ctx, task, 2, a, b)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "3 tasks; allowed: a square") {
		t.Error(err)
	}
}
