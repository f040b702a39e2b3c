package coppicetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

// TestEveryJoinAndDepartureMovesATask: otherwise they would try nothing.
func TestEveryJoinAndDepartureMovesATask(t *testing.T) {
	s := &search{t: t, n: 3, o: Options{}.filled(), run: func(ctx context.Context, task *coppice.Task) (any, error) {
		return rounds(ctx, task, 4, func(w *walk, sum int) { w.Sum += sum })
	}}
	if err := s.all(); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, kind := range []string{"join", "leave"} {
		for _, at := range []string{"0@save#1", "1@allreduce#1", "2@save#3", "0@allreduce#2"} {
			f := fault{kind: leave, at: at}
			if kind == "join" {
				f.kind = join
			}
			before := s.moved
			if err := s.judge(f, s.perform(f, false)); err != nil {
				t.Error(err)
			}
			if tried++; s.moved == before {
				t.Errorf("%v no task moves", f)
			}
		}
	}
	if want := 2 * 3 * 6; s.moved-tried < want { // before the last Save of each task it begins 6 operations
		t.Errorf("%d moves; want %d or more", s.moved-tried, want)
	}
}

// TestTaskThatPanicsWhenItMoves takes the error of Save for one that cannot be.
func TestTaskThatPanicsWhenItMoves(t *testing.T) {
	text := breached(t, 3, func(ctx context.Context, task *coppice.Task) (w walk, err error) {
		for ; w.Round < 4; w.Round++ {
			if err := coppice.Save(ctx, task, &w); err != nil {
				panic(err)
			}
			sum, err := coppice.AllReduce(ctx, task, w.Round, coppice.Sum)
			if err != nil {
				return w, err
			}
			w.Sum += sum
		}
		return w, nil
	}, Options{})
	wants(t, text, "with a process that joins at 0@save#1, the program fails: task ", "has moved to another process, and where it was: panic: ",
		"goes on in process", "\n\tgo test -run '^TestTaskThatPanicsWhenItMoves$' -coppicetest.join=0@save#1")
}

// TestMemoryOutsideTheState is freed by the function that ends, and used by the one that goes on: a kill runs no such code.
func TestMemoryOutsideTheState(t *testing.T) {
	var factors [3]atomic.Pointer[int] // by rank, as in a variable of a package
	program := func(ctx context.Context, task *coppice.Task) (w walk, err error) {
		own := &factors[task.Rank()]
		if task.Attempt() == 0 {
			two := 2
			own.Store(&two)
		}
		for ; w.Round < 4; w.Round++ {
			if err := coppice.Save(ctx, task, &w); err != nil {
				own.Store(new(int))
				return w, err
			}
			sum, err := coppice.AllReduce(ctx, task, w.Round, coppice.Sum)
			if err != nil {
				return w, err
			}
			w.Sum += *own.Load() * sum
		}
		return w, nil
	}
	text := breached(t, 3, program, Options{Joins: -1})
	wants(t, text, "with a process that leaves at ", "the program returns something else at task ", "without the departure", "-coppicetest.leave=")
	text = breached(t, 3, program, Options{Leaves: -1})
	wants(t, text, "with a process that joins at ", "without the join", "-coppicetest.join=")
	Survives(t, 3, program, Options{Joins: -1, Leaves: -1, Pauses: -1}) // no kill finds it
}

// TestWhatIsReturnedAfterAMoveIsOfNoUse: a function may return anything where its task was.
func TestWhatIsReturnedAfterAMoveIsOfNoUse(t *testing.T) {
	Survives(t, 2, func(ctx context.Context, task *coppice.Task) (w walk, err error) {
		w, err = rounds(ctx, task, 3, func(w *walk, sum int) { w.Sum += sum })
		if errors.Is(err, coppice.ErrMoved) {
			err = nil
		}
		return w, err
	})
}

// TestPauseIsFound: a task decides by how far another one is.
func TestPauseIsFound(t *testing.T) {
	var sent [2]atomic.Bool
	s := &search{t: t, n: 2, o: Options{}.filled(), want: map[int]any{0: true, 1: true}, run: func(ctx context.Context, task *coppice.Task) (any, error) {
		own, other := &sent[task.Rank()], &sent[1-task.Rank()]
		own.Store(false)
		if err := coppice.Barrier(ctx, task); err != nil {
			return nil, err
		}
		if task.Rank() == 0 {
			err := coppice.Send(ctx, task, 1, 0, 7)
			own.Store(true)
			return true, err
		}
		for begun := time.Now(); time.Since(begun) < quietFor/4 && !other.Load(); {
			time.Sleep(quietFor / 20)
		}
		was := other.Load()
		_, err := coppice.Recv[int](ctx, task, 0, 0)
		return was, err
	}}
	f := fault{kind: pause, at: "0@send#1"}
	for range 200 { // how long others take is up to the machine
		r := s.perform(f, false)
		if !r.reached || r.err != nil {
			t.Fatal(r.reached, r.err)
		}
		if err := s.judge(f, r); err != nil {
			wants(t, err.Error(), "with a process that stands still at 0@send#1, the program returns something else at task 1: ", "without the pause true", "-coppicetest.pause=0@send#1")
			return
		}
	}
	t.Error("not found")
}

// TestPausesChangeNothing at any step.
func TestPausesChangeNothing(t *testing.T) {
	s := &search{t: t, n: 3, o: Options{}.filled(), run: func(ctx context.Context, task *coppice.Task) (any, error) {
		return rounds(ctx, task, 3, func(w *walk, sum int) { w.Sum += sum })
	}}
	first := s.perform(fault{}, false)
	s.want = first.returned
	reached := 0
	for task := range 3 {
		for _, p := range first.begun[task] {
			for p.step = range 6 {
				f := fault{kind: pause, at: p.String()}
				r := s.perform(f, false)
				if err := s.judge(f, r); err != nil {
					t.Error(err)
				}
				if p.step > 0 && r.reached {
					reached++
				}
			}
		}
	}
	if reached < 3*6 {
		t.Errorf("%d steps come to; want one of each operation or more", reached)
	}
}

// TestFaultsAreLimited by the options.
func TestFaultsAreLimited(t *testing.T) {
	for _, c := range []struct {
		o     Options
		tried [len(kinds)]int
	}{
		{Options{}, [len(kinds)]int{pause: 12, join: 8, leave: 8}},
		{Options{Pauses: 2, Joins: 3, Leaves: 4}, [len(kinds)]int{pause: 2, join: 3, leave: 4}},
		{Options{Pauses: -1, Joins: -1, Leaves: -1}, [len(kinds)]int{}},
		{Options{Runs: 20}, [len(kinds)]int{pause: 2, join: 2, leave: 2}},
	} {
		s := &search{t: t, n: 2, o: c.o.filled(), steps: map[point]int{}, run: func(ctx context.Context, task *coppice.Task) (any, error) {
			return rounds(ctx, task, 3, func(w *walk, sum int) { w.Sum += sum })
		}}
		first := s.perform(fault{}, false)
		s.want = first.returned
		tried, err := s.others(first, append(first.begun[0], first.begun[1]...))
		if err != nil || tried != c.tried {
			t.Errorf("%+v: %v, %v; want %v", c.o, tried, err, c.tried)
		}
		if s.runs = 0; c.o.Runs > 0 {
			if err := s.all(); err != nil || s.runs > c.o.Runs {
				t.Error(s.runs, err)
			}
		}
	}
}

// TestOneFaultOfAFlag is tried, without any other.
func TestOneFaultOfAFlag(t *testing.T) {
	for k, at := range map[kind]string{pause: "1@allreduce#2/1", join: "0@save#2", leave: "1@allreduce#1"} {
		*alone[k] = at
		s := &search{t: t, n: 2, o: Options{}.filled(), run: func(ctx context.Context, task *coppice.Task) (any, error) {
			return rounds(ctx, task, 3, func(w *walk, sum int) { w.Sum += sum })
		}}
		if err := s.all(); err != nil || s.runs != 0 || s.moved == 0 && k != pause {
			t.Error(k, err, s.runs, s.moved)
		}
		for _, bad := range []string{"x", "0@100ms", "1@save#2/99999", "0@save#1,1@save#1", "99@save#1"} {
			*alone[k] = bad
			if err := s.all(); err == nil || !strings.Contains(err.Error(), bad) {
				t.Error(k, bad, err)
			}
		}
		*alone[kill] = "1@save#1"
		if err := s.all(); err == nil || !strings.Contains(err.Error(), "allowed: one of them") {
			t.Error(k, err)
		}
		*alone[kill] = ""
		*alone[k] = "1@dance#2"
		if err := s.all(); err == nil || !strings.Contains(err.Error(), "dance#2") {
			t.Error(k, err)
		}
		*alone[k] = ""
	}
}
