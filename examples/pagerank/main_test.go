package main

import (
	"context"
	"math"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// serial is what one task returns for all pages.
func serial(t *testing.T, pages, rounds int) (ranks []float64) {
	t.Helper()
	err := coppice.Local(t.Context(), 1, func(ctx context.Context, task *coppice.Task) (err error) {
		ranks, err = rank(ctx, task, pages, rounds)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ranks
}

func TestSurvives(t *testing.T) {
	const pages = 90
	want := serial(t, pages, 4)
	coppicetest.Survives(t, 3, func(ctx context.Context, task *coppice.Task) ([]float64, error) {
		ranks, err := rank(ctx, task, pages, 4)
		for i, r := range ranks {
			if page := task.Rank() + i*task.Size(); err == nil && math.Abs(r-want[page]) > 1e-12 {
				t.Errorf("page %d has rank %g, want %g", page, r, want[page])
			}
		}
		return ranks, err
	})
}

func TestRanksAddUpToOne(t *testing.T) {
	sum := 0.0
	for _, r := range serial(t, 500, 20) {
		sum += r
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Error(sum)
	}
}
