package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// TestSurvives: each task returns the rows that it has when one task has all, to the bit.
func TestSurvives(t *testing.T) {
	const height, width, steps = 13, 7, 5
	var want [][]float64
	err := coppice.Local(t.Context(), 1, func(ctx context.Context, task *coppice.Task) (err error) {
		want, err = flow(ctx, task, height, width, steps)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want[3][3] <= 0 || want[6][3] != 0 {
		t.Errorf("heat flows one row a step: %v", want)
	}
	coppicetest.Survives(t, 4, func(ctx context.Context, task *coppice.Task) ([][]float64, error) {
		rows, err := flow(ctx, task, height, width, steps)
		first := height * task.Rank() / task.Size()
		if err == nil && !slices.EqualFunc(rows, want[first:first+len(rows)], slices.Equal) {
			t.Errorf("task %d has %v, want %v", task.Rank(), rows, want[first:first+len(rows)])
		}
		return rows, err
	})
}

// TestMoreTasksThanRows: each task has one at least.
func TestMoreTasksThanRows(t *testing.T) {
	err := coppice.Local(t.Context(), 3, func(ctx context.Context, task *coppice.Task) error {
		_, err := flow(ctx, task, 2, 2, 1)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "3 tasks; allowed: up to 2") {
		t.Error(err)
	}
}
