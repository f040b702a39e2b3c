package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coppice-go/coppice"
)

// counted runs count with a slice of numbers for each task.
func counted(t *testing.T, numbers [][]float64) []histogram {
	t.Helper()
	got := make([]histogram, len(numbers))
	err := coppice.Local(t.Context(), len(numbers), func(ctx context.Context, task *coppice.Task) (err error) {
		got[task.Rank()], err = count(ctx, task, numbers[task.Rank()])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestCount(t *testing.T) {
	for _, c := range []struct {
		name      string
		numbers   [][]float64
		low, high float64
		counts    []int
	}{
		{"one task", [][]float64{{0, 10}}, 0, 10, []int{1, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
		{"ends at different tasks", [][]float64{{10, 5}, {0}, {9.5}}, 0, 10, []int{1, 0, 0, 0, 0, 1, 0, 0, 0, 2}},
		{"a task without numbers", [][]float64{{}, {-1, 0, 1}}, -1, 1, []int{1, 0, 0, 0, 0, 1, 0, 0, 0, 1}},
		{"all the same", [][]float64{{3}, {3, 3}}, 3, 3, []int{3, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for rank, h := range counted(t, c.numbers) {
				if h.low != c.low || h.high != c.high || !slices.Equal(h.counts, c.counts) {
					t.Errorf("task %d has %v to %v: %v, want %v to %v: %v", rank, h.low, h.high, h.counts, c.low, c.high, c.counts)
				}
			}
		})
	}
}

// TestCountIsThatOfOneTask: the distribution of the numbers to tasks makes no difference.
func TestCountIsThatOfOneTask(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]float64, 10_000)
	for i := range all {
		all[i] = random.NormFloat64()
	}
	want := counted(t, [][]float64{all})[0]
	for _, tasks := range []int{2, 3, 8} {
		t.Run(fmt.Sprint(tasks), func(t *testing.T) {
			numbers := make([][]float64, tasks)
			for i, x := range all {
				numbers[i%tasks] = append(numbers[i%tasks], x)
			}
			for rank, h := range counted(t, numbers) {
				if h.String() != want.String() {
					t.Errorf("task %d has\n%vwant\n%v", rank, h, want)
				}
			}
		})
	}
}
