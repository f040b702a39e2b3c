package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

func TestSurvives(t *testing.T) {
	want := []int{0, 1, 4, 9, 16, 25, 36, 49, 64}
	coppicetest.Survives(t, 4, func(ctx context.Context, task *coppice.Task) ([]int, error) {
		found, err := sweep(ctx, task, len(want), func(n int) int { return n * n })
		if task.Rank() == 0 && err == nil && !slices.Equal(found, want) {
			t.Errorf("%v, want %v", found, want)
		}
		return found, err
	}, coppicetest.Options{Runs: 500})
}

func TestOneTaskIsTooFew(t *testing.T) {
	err := coppice.Local(t.Context(), 1, func(ctx context.Context, task *coppice.Task) error {
		_, err := sweep(ctx, task, 1, longest)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "2 or more") {
		t.Error(err)
	}
}

func TestLongest(t *testing.T) {
	if n := longest(0); n != 261 { // from 6171
		t.Errorf("%d steps, want 261", n)
	}
}
