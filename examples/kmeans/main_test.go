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
var small = settings{points: 600, k: 4, dims: 3, rounds: 12, tasks: 8}

// serial does in sequence what tasks do at once. It combines their sums in the one order that exists
// for that many tasks, so the result is the same bits.
func serial(s settings) (now state) {
	parts := make([][]float64, s.tasks)
	for task := range parts {
		parts[task] = s.part(task, s.tasks)
	}
	now.Centers = parts[0][:s.k*s.dims]
	for ; now.Round < s.rounds; now.Round++ {
		sums := make([][]float64, s.tasks)
		for task, points := range parts {
			sums[task] = s.assign(points, now.Centers)
		}
		s.move(&now, combined(sums))
	}
	return now
}

// combined adds up neighbours, then pairs of them, and so on.
func combined(sums [][]float64) []float64 {
	for ; len(sums) > 1; sums = pairs(sums) {
	}
	return sums[0]
}

func pairs(sums [][]float64) (half [][]float64) {
	for ; len(sums) > 1; sums = sums[2:] {
		pair := make([]float64, len(sums[0]))
		for i := range pair {
			pair[i] = sums[0][i] + sums[1][i]
		}
		half = append(half, pair)
	}
	return append(half, sums...)
}

func (now state) equal(other state) bool {
	return now.Round == other.Round && now.digest() == other.digest() && slices.Equal(now.Centers, other.Centers)
}

// run checks that every task has the wanted result, and returns how many tasks were run again.
func run(t *testing.T, s settings, job coppice.Job, want state, kills ...string) (again int) {
	t.Helper()
	var mu sync.Mutex
	ended := map[int]bool{}
	job.Tasks = s.tasks
	err := job.Run(coppicetest.WithKills(t.Context(), kills...), func(ctx context.Context, task *coppice.Task) error {
		now, err := s.cluster(ctx, task)
		mu.Lock()
		defer mu.Unlock()
		if task.Attempt() > 0 {
			again++
		}
		if ended[task.Rank()] = true; err == nil && !now.equal(want) {
			t.Errorf("task %d has %v, want %v", task.Rank(), now, want)
		}
		return err
	})
	if err != nil || len(ended) != s.tasks {
		t.Errorf("%d of %d tasks have ended: %v", len(ended), s.tasks, err)
	}
	return again
}

func TestClusterIsTheSerialOne(t *testing.T) {
	for _, tasks := range []int{1, 2, 3, 5, 7, 8, 13} {
		for processes := 1; processes <= tasks; processes += 2 {
			t.Run(fmt.Sprintf("%d tasks, %d processes", tasks, processes), func(t *testing.T) {
				s := small
				s.tasks = tasks
				run(t, s, coppice.Job{Local: processes}, serial(s))
			})
		}
	}
}

func TestClusterSurvivesDeaths(t *testing.T) {
	for _, kills := range [][]string{
		{"0@once#1/1"},
		{"0@broadcast#1"},
		{"0@save#1/2"},
		{"0@allreduce#5"},
		{"5@save#7/1"},
		{"3@allreduce#12/1"},
		{"0@save#3", "2@allreduce#6", "4@save#9/1"},
	} {
		t.Run(fmt.Sprint(kills), func(t *testing.T) {
			if again := run(t, small, coppice.Job{Local: 4}, serial(small), kills...); again < len(kills) {
				t.Errorf("%d tasks were run again", again)
			}
		})
	}
}

// TestSerialTellsOrderApart: only then does comparing bits show the order.
func TestSerialTellsOrderApart(t *testing.T) {
	other := small
	other.tasks = 3
	if a, b := serial(small), serial(other); a.digest() == b.digest() || math.Abs(a.Inertia-b.Inertia) > 1e-6*a.Inertia {
		t.Errorf("inertia %v and %v: not the same up to rounding, or not different at all", a.Inertia, b.Inertia)
	}
}

func TestInertiaNeverGrows(t *testing.T) {
	s, last := small, math.Inf(1)
	for s.rounds = 1; s.rounds < 20; s.rounds++ {
		now := serial(s).Inertia
		if now > last*(1+1e-12) {
			t.Errorf("round %d: %v after %v", s.rounds, now, last)
		}
		last = now
	}
}

func TestAssignAndMove(t *testing.T) {
	s := settings{k: 3, dims: 2}
	now := state{Centers: []float64{0, 0, 10, 10, 99, 99}}
	points := []float64{1, 0, 0, 1, 10, 12, 5, 5} // the last is as near to the first two
	sums := s.assign(points, now.Centers)
	if want := []float64{6, 6, 3, 10, 12, 1, 0, 0, 0, 1 + 1 + 4 + 50}; !slices.Equal(sums, want) {
		t.Fatalf("sums %v, want %v", sums, want)
	}
	before := now.Centers
	s.move(&now, sums)
	if want := []float64{2, 2, 10, 12, 99, 99}; !slices.Equal(now.Centers, want) || now.Inertia != 56 {
		t.Errorf("centers %v, want %v; inertia %v, want 56", now.Centers, want, now.Inertia)
	}
	if before[0] != 0 {
		t.Error("the centers before have changed")
	}
}

// TestPointsDoNotDependOnTasks: several tasks have together the points that one would have.
func TestPointsDoNotDependOnTasks(t *testing.T) {
	want := small.part(0, 1)
	for _, tasks := range []int{2, 7} {
		var all []float64
		for task := range tasks {
			all = append(all, small.part(task, tasks)...)
		}
		if !slices.Equal(all, want) {
			t.Errorf("%d tasks have other points", tasks)
		}
	}
}

func TestBadSettings(t *testing.T) {
	for want, change := range map[string]func(*settings){
		"-tasks 0; allowed: 1 or more":               func(s *settings) { s.tasks = 0 },
		"-dims 0; allowed: 1 or more":                func(s *settings) { s.dims = 0 },
		"-rounds -1; allowed: 0 or more":             func(s *settings) { s.rounds = -1 },
		"-k 0; allowed: 1 to 75, the points of a ta": func(s *settings) { s.k = 0 },
		"-k 76; allowed: 1 to 75, the points of a t": func(s *settings) { s.k = 76 },
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
