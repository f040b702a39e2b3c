package coppicetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

type walk struct{ Round, Sum int }

// rounds adds up numbers of all tasks, and saves before each round.
func rounds(ctx context.Context, t *coppice.Task, n int, each func(w *walk, sum int)) (w walk, err error) {
	for ; w.Round < n; w.Round++ {
		if err := coppice.Save(ctx, t, &w); err != nil {
			return w, err
		}
		sum, err := coppice.AllReduce(ctx, t, 1<<w.Round, coppice.Sum)
		if err != nil {
			return w, err
		}
		each(&w, sum)
	}
	return w, nil
}

func TestProgramThatSurvives(t *testing.T) {
	var calls atomic.Int64
	Survives(t, 3, func(ctx context.Context, task *coppice.Task) (walk, error) {
		calls.Add(1)
		return rounds(ctx, task, 4, func(w *walk, sum int) { w.Sum += sum })
	})
	if calls.Load() < 3*3*8 { // three tasks, killed in each of their operations
		t.Error(calls.Load(), "calls")
	}
}

// breached is what Survives says of a program.
func breached[R any](t *testing.T, n int, program func(ctx context.Context, task *coppice.Task) (R, error), o Options) string {
	t.Helper()
	s := &search{t: t, n: n, o: o.filled(), run: func(ctx context.Context, task *coppice.Task) (any, error) { return program(ctx, task) }}
	err := s.all()
	if err == nil {
		t.Fatal("not found")
	}
	return err.Error()
}

func wants(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in %s", w, text)
		}
	}
}

// TestVariableLeftOutOfSave: what a task has added up is not in what it saves.
func TestVariableLeftOutOfSave(t *testing.T) {
	for seed := range uint64(3) {
		text := breached(t, 3, func(ctx context.Context, task *coppice.Task) (int, error) {
			total := 0
			_, err := rounds(ctx, task, 4, func(_ *walk, sum int) { total += sum })
			return total, err
		}, Options{Seed: seed})
		// Until the second Save has returned the first epoch has all there is.
		wants(t, text, "returns something else at task ", "; without the kill 45", "\n\tgo test -run '^TestVariableLeftOutOfSave$' -coppicetest.kill=")
		if !strings.Contains(text, "@save#3") && !strings.Contains(text, "@allreduce#2") {
			t.Errorf("not the earliest: %s", text)
		}
	}
}

// TestSomethingElseIsSent: the clock decides what is sent.
func TestSomethingElseIsSent(t *testing.T) {
	var now atomic.Int64
	text := breached(t, 3, func(ctx context.Context, task *coppice.Task) (int, error) {
		if task.Attempt() > 0 {
			now.Add(1)
		}
		sum, err := coppice.AllReduce(ctx, task, int(now.Load()), coppice.Sum)
		if err == nil {
			err = coppice.Barrier(ctx, task)
		}
		return sum * 0, err
	}, Options{})
	wants(t, text, "killed at ", "fails: ", "task ")
}

// TestResultsThatDifferWithoutAKill: a program of which no two runs are the same.
func TestResultsThatDifferWithoutAKill(t *testing.T) {
	var calls atomic.Int64
	wants(t, breached(t, 2, func(ctx context.Context, task *coppice.Task) (map[string][]int64, error) {
		return map[string][]int64{"calls": {7, calls.Add(1)}}, coppice.Barrier(ctx, task)
	}, Options{}), "nobody is killed, and the program returns something else at task ", `["calls"][1] is `)
	wants(t, breached(t, 2, func(ctx context.Context, task *coppice.Task) (int, error) {
		return 0, fmt.Errorf("full")
	}, Options{}), "nobody is killed, and the program fails", "full")
	first := true
	wants(t, breached(t, 1, func(ctx context.Context, task *coppice.Task) (int, error) {
		if first { // the only task of the first run
			first = false
			return 0, coppice.Barrier(ctx, task)
		}
		return 0, nil
	}, Options{}), "killed at 0@barrier#1, the program does not come to that operation")
}

// TestProgramThatHangs: a run ends when its time is over.
func TestProgramThatHangs(t *testing.T) {
	text := breached(t, 2, func(ctx context.Context, task *coppice.Task) (int, error) {
		if task.Attempt() > 0 {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return coppice.AllReduce(ctx, task, 1, coppice.Sum)
	}, Options{Timeout: time.Second})
	wants(t, text, "killed at ", "deadline exceeded")
}

// TestOnlyTheKillOfTheFlag is tried.
func TestOnlyTheKillOfTheFlag(t *testing.T) {
	*killFlag = "1@allreduce#2"
	defer func() { *killFlag = "" }()
	var again atomic.Int64
	Survives(t, 2, func(ctx context.Context, task *coppice.Task) (walk, error) {
		if task.Attempt() > 0 {
			again.Add(1)
		}
		return rounds(ctx, task, 3, func(w *walk, sum int) { w.Sum += sum })
	})
	if again.Load() != 1 {
		t.Error(again.Load())
	}
}

// TestFewRuns: no more are made than are allowed.
func TestFewRuns(t *testing.T) {
	s := &search{t: t, n: 2, o: Options{Runs: 3}.filled(), run: func(ctx context.Context, task *coppice.Task) (any, error) {
		return rounds(ctx, task, 3, func(w *walk, sum int) { w.Sum += sum })
	}}
	if err := s.all(); err != nil || s.runs != 3 {
		t.Error(s.runs, err)
	}
}

func TestDifference(t *testing.T) {
	type node struct {
		Next *node
		Text any
		X    []float64
		hid  int
	}
	ring := func(n int) *node {
		a := &node{hid: n}
		a.Next = &node{Next: a}
		return a
	}
	for _, c := range []struct {
		want, got any
		text      string
	}{
		{1, 1, ""},
		{1, 2, "2; without the kill 1"},
		{1, "1", `"1"; without the kill 1`},
		{nil, nil, ""},
		{math.NaN(), math.NaN(), ""},
		{[]float64{math.NaN()}, []float64{1}, "[0] is 1; without the kill NaN"},
		{[]int{1}, []int{1, 2}, "[1 2]; without the kill [1]"},
		{[]int{}, []int(nil), "[]; without the kill []"},
		{map[string]int{"a": 1}, map[string]int{"a": 1, "b": 2}, `["b"] is 2; without the kill nothing`},
		{node{Text: "x"}, node{Text: 3}, `.Text is 3; without the kill "x"`},
		{node{X: []float64{1, 2}}, node{X: []float64{1, 3}}, ".X[1] is 3; without the kill 2"},
		{&node{}, (*node)(nil), "<nil>; without the kill &{"},
		{ring(1), ring(2), ".hid is 2; without the kill 1"},
		{ring(1), ring(1), ""},
		{strings.Repeat("x", 500), "y", `"y"; without the kill "` + strings.Repeat("x", showMax-1) + "…"},
	} {
		if got := difference(c.want, c.got); !strings.HasPrefix(got, c.text) || (c.text == "") != (got == "") {
			t.Errorf("%v, %v: %s", c.want, c.got, got)
		}
	}
}
