package coppicetest

import (
	"context"
	"errors"
	"fmt"
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
	s := &search{t: t, n: n, o: o.filled(), unrehearsed: true, run: func(ctx context.Context, task *coppice.Task) (any, error) { return program(ctx, task) }}
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

// TestRehearsal finds what the search would find, in the first run.
func TestRehearsal(t *testing.T) {
	forgets := func(ctx context.Context, task *coppice.Task) (int, error) {
		total := 0
		_, err := rounds(ctx, task, 4, func(_ *walk, sum int) { total += sum })
		return total, err
	}
	s := &search{t: t, n: 3, o: Options{}.filled(), run: func(ctx context.Context, task *coppice.Task) (any, error) { return forgets(ctx, task) }}
	if err := s.all(); err == nil || s.runs > 0 {
		t.Error(s.runs, err)
	} else {
		wants(t, err.Error(), "nobody is killed, and the program fails", "is run again, and returns something else: ", "; before 45")
	}
	tells := func(ctx context.Context, task *coppice.Task) (int, error) {
		total := 0
		_, err := rounds(ctx, task, 4, func(_ *walk, sum int) { total += sum })
		if err == nil {
			total, err = coppice.AllReduce(ctx, task, total, coppice.Sum)
		}
		return total, err
	}
	s.run = func(ctx context.Context, task *coppice.Task) (any, error) { return tells(ctx, task) }
	if err := s.all(); !errors.Is(err, coppice.ErrDiverged) {
		t.Error(err)
	} else {
		wants(t, err.Error(), "when it is run again from its Save of epoch ", "allreduce at coppicetest_test.go:", "gives something else: ", "; before 45")
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

// TestMessages: a message is one step, and what follows is tried as well.
func TestMessages(t *testing.T) {
	text := breached(t, 2, func(ctx context.Context, task *coppice.Task) (int, error) {
		total := 0
		_, err := rounds(ctx, task, 3, func(_ *walk, sum int) {
			for i := range 5 {
				if err := coppice.Send(ctx, task, 1-task.Rank(), i, sum); err != nil {
					panic(err)
				}
				if _, err := coppice.Recv[int](ctx, task, 1-task.Rank(), i); err != nil {
					panic(err)
				}
			}
			total += sum
		})
		return total, err
	}, Options{Runs: 200})
	wants(t, text, "returns something else at task ")
}

// TestGoroutinesOfTheProgram: whoever waits for a goroutine of a killed process does not keep the run from ending.
func TestGoroutinesOfTheProgram(t *testing.T) {
	Survives(t, 2, func(ctx context.Context, task *coppice.Task) (int, error) {
		fork, sums := task.Fork(), make(chan int)
		go func() {
			sum, err := coppice.AllReduce(ctx, fork, 1, coppice.Sum)
			if err == nil {
				sums <- sum
			}
		}()
		if err := coppice.Barrier(ctx, task); err != nil {
			return 0, err
		}
		return <-sums, nil
	})
}

// TestPanics: a panic is a failure of a run.
func TestPanics(t *testing.T) {
	wants(t, breached(t, 2, func(ctx context.Context, task *coppice.Task) (int, error) {
		if task.Attempt() > 0 {
			panic("again")
		}
		return coppice.AllReduce(ctx, task, 1, coppice.Sum)
	}, Options{}), "killed at ", "panic: again", "-coppicetest.kill=")
}

// TestLineThatRepeats: the line tries the test alone, whatever its name.
func TestLineThatRepeats(t *testing.T) {
	t.Run("x+y(z) it's", func(t *testing.T) {
		line := (&search{t: t}).again(fault{kind: kill, at: "1@save#2"})
		if want := `-run '^TestLineThatRepeats$/^x\+y\(z\)_it'\''s$' -coppicetest.kill=1@save#2`; !strings.HasSuffix(line, want) {
			t.Errorf("%s, want %s", line, want)
		}
	})
}

func TestBadOptions(t *testing.T) {
	for want, err := range map[string]error{
		"no program":         Options{}.check(2, true),
		"0 processes":        Options{}.check(0, false),
		"1 processes":        Options{}.check(1, false),
		"at most -1 runs":    Options{Runs: -1}.check(2, false),
		"a timeout of -1ns;": Options{Timeout: -1}.check(2, false),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := (Options{}).check(2, false); err != nil {
		t.Error(err)
	}
}

// TestOnlyTheKillOfTheFlag is tried.
func TestOnlyTheKillOfTheFlag(t *testing.T) {
	*alone[kill] = "1@allreduce#2"
	defer func() { *alone[kill] = "" }()
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
