package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// small are settings of a job that takes milliseconds.
var small = settings{samples: 800, dims: 4, batch: 10, epochs: 6, tasks: 8, rate: 0.5}

// outcome is the weights that a job has learned, and its losses by epoch.
type outcome struct {
	weights []float64
	losses  map[int]float64
	again   int // tasks that were run again
}

// run returns the final state of all tasks, which must be the same.
func run(t *testing.T, s settings, job coppice.Job, kills ...string) outcome {
	t.Helper()
	var mu sync.Mutex
	o := outcome{losses: map[int]float64{}}
	s.tell = func(epoch int, loss float64) {
		mu.Lock()
		defer mu.Unlock()
		if old, told := o.losses[epoch]; told && old != loss {
			t.Errorf("epoch %d: loss %v, then %v", epoch, old, loss)
		}
		o.losses[epoch] = loss
	}
	job.Tasks = s.tasks
	err := job.Run(coppicetest.WithKills(t.Context(), kills...), func(ctx context.Context, task *coppice.Task) error {
		now, err := s.learn(ctx, task)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if task.Attempt() > 0 {
			o.again++
		}
		if o.weights != nil && !slices.Equal(now.Weights, o.weights) {
			t.Errorf("task %d has %v, another one %v", task.Rank(), now.Weights, o.weights)
		}
		o.weights = now.Weights
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestLossFalls(t *testing.T) {
	losses := run(t, small, coppice.Job{Local: 2}).losses
	if len(losses) != small.epochs || losses[1] > math.Ln2 || losses[6] > 0.7*losses[1] {
		t.Errorf("losses %v", losses) // weights of 0 have ln 2
	}
}

// TestWeightsDoNotDependOnProcesses, nor on which crash and when: they are the same bits.
func TestWeightsDoNotDependOnProcesses(t *testing.T) {
	want := run(t, small, coppice.Job{Local: 1})
	for _, c := range []struct {
		processes int
		kills     []string
	}{
		{processes: 2},
		{processes: 8},
		{4, []string{"0@once#1/1"}},
		{4, []string{"0@save#3/1"}},
		{4, []string{"0@allreduce#40"}},
		{4, []string{"7@allreduce#65/1"}},
		{5, []string{"0@save#2/1", "2@allreduce#25", "4@allreduce#50/1", "6@save#6"}},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			got := run(t, small, coppice.Job{Local: c.processes}, c.kills...)
			if !slices.Equal(got.weights, want.weights) || fmt.Sprint(got.losses) != fmt.Sprint(want.losses) {
				t.Errorf("%v with losses %v, want %v with %v", got.weights, got.losses, want.weights, want.losses)
			}
			if got.again < len(c.kills) {
				t.Errorf("%d tasks were run again", got.again)
			}
		})
	}
}

// TestEpochsDrawOtherSamples: after each Save Task.Rand returns other numbers.
func TestEpochsDrawOtherSamples(t *testing.T) {
	var mu sync.Mutex
	drawn := map[uint64]int{}
	err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
		for epoch := 0; epoch < 3; epoch++ {
			if err := coppice.Save(ctx, task, &epoch); err != nil {
				return err
			}
			mu.Lock()
			drawn[task.Rand().Uint64()]++
			mu.Unlock()
		}
		return nil
	})
	if err != nil || len(drawn) != 6 {
		t.Errorf("%d different numbers of 6: %v", len(drawn), err)
	}
}

// TestGradientIsThatOfTheLoss compares the gradient with differences of the loss.
func TestGradientIsThatOfTheLoss(t *testing.T) {
	own := small.part(0, 100)
	weights := []float64{0.3, -0.2, 0.5, 0.1, -0.4}
	gradient := make([]float64, len(weights))
	for i := range own.Kinds {
		own.gradient(i, weights, gradient)
	}
	const by = 1e-6
	for d, g := range gradient {
		up, down := slices.Clone(weights), slices.Clone(weights)
		up[d] += by
		down[d] -= by
		if slope := (own.loss(up) - own.loss(down)) / (2 * by); math.Abs(slope-g) > 1e-6 {
			t.Errorf("weight %d: gradient %v, slope %v", d, g, slope)
		}
	}
}

func TestBadSettings(t *testing.T) {
	for want, change := range map[string]func(*settings){
		"-tasks 0; allowed: 1 or more":    func(s *settings) { s.tasks = 0 },
		"-samples 7; allowed: 8 or more,": func(s *settings) { s.samples = 7 },
		"-dims 0; allowed: 1 or more":     func(s *settings) { s.dims = 0 },
		"-batch 0; allowed: 1 or more":    func(s *settings) { s.batch = 0 },
		"-epochs -1; allowed: 0 or more":  func(s *settings) { s.epochs = -1 },
		"-rate 0; allowed: more than 0":   func(s *settings) { s.rate = 0 },
		"-rate NaN; allowed: more than 0": func(s *settings) { s.rate = math.NaN() },
	} {
		s := small
		if change(&s); s.check() == nil || !strings.HasPrefix(s.check().Error(), want) {
			t.Errorf("%v, want %s", s.check(), want)
		}
	}
	if err := small.check(); err != nil {
		t.Error(err)
	}
}
