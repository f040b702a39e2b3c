package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// run returns the result of every task.
func run(t *testing.T, tasks, strips int) []float64 {
	t.Helper()
	got := make([]float64, tasks)
	err := coppice.Local(t.Context(), tasks, func(ctx context.Context, task *coppice.Task) (err error) {
		got[task.Rank()], err = area(ctx, task, strips)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAreaIsPiAtTaskZeroAlone(t *testing.T) {
	for _, tasks := range []int{1, 2, 3, 8, 13} {
		t.Run(fmt.Sprint(tasks), func(t *testing.T) {
			got := run(t, tasks, 100_000)
			if math.Abs(got[0]-math.Pi) > 1e-9 {
				t.Errorf("π is %v", got[0])
			}
			for rank, pi := range got[1:] {
				if pi != 0 {
					t.Errorf("task %d has %v, want 0", rank+1, pi)
				}
			}
		})
	}
}

// With fewer strips than tasks some have nothing to add. The two strips have the
// height of the curve at 1/4 and 3/4.
func TestAreaOfTwoStrips(t *testing.T) {
	want := 0.5*4/(1+1./16) + 0.5*4/(1+9./16)
	if got := run(t, 5, 2)[0]; got != want {
		t.Errorf("area %v, want %v", got, want)
	}
}

func TestAreaIsTheSameBitsInEveryRun(t *testing.T) {
	first := run(t, 7, 1000)[0]
	for range 20 {
		if again := run(t, 7, 1000)[0]; again != first {
			t.Fatalf("first %v, then %v", first, again)
		}
	}
}

// A survivor computes the share of a crashed task again: the area is the same bits.
func TestAreaSurvivesADeath(t *testing.T) {
	want := run(t, 4, 1000)[0]
	for _, dead := range []int{0, 3} {
		job := coppice.Job{Local: 4}
		var atZero float64
		var deaths atomic.Int32
		err := job.Run(coppicetest.WithKills(t.Context(), fmt.Sprint(dead, "@reduce#1")), func(ctx context.Context, task *coppice.Task) error {
			if task.Attempt() > 0 {
				deaths.Add(1)
			}
			pi, err := area(ctx, task, 1000)
			if task.Rank() == 0 {
				atZero = pi
			}
			return err
		})
		if err != nil || atZero != want || deaths.Load() != 1 {
			t.Errorf("task %d dies: area %v, want %v; %d tasks run again: %v", dead, atZero, want, deaths.Load(), err)
		}
	}
}

func TestAreaWithoutAShareIsAnError(t *testing.T) {
	job := coppice.Job{Local: 4, Recovery: coppice.Report}
	var atZero error
	_ = job.Run(coppicetest.WithKills(t.Context(), "3@reduce#1"), func(ctx context.Context, task *coppice.Task) error {
		_, err := area(ctx, task, 1000)
		if task.Rank() == 0 {
			atZero = err
		}
		return err
	})
	if !errors.Is(atZero, coppice.ErrLost) {
		t.Errorf("task 0 got %v, want that a task is lost", atZero)
	}
}
