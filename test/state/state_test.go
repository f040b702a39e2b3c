package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/test/stage"
)

// walk is the state of a program whose every value depends on all before.
type walk struct {
	Round int
	Sum   uint64
	Trail []uint64
	Rest  []float64 // makes it large
}

// walks saves in each round, between collectives, messages and groups of all kinds. It returns the
// final state of its task.
func walks(ctx context.Context, t *coppice.Task, rounds, rest int) (w walk, err error) {
	w.Rest = make([]float64, rest)
	seed, err := coppice.Once(ctx, t, func(context.Context) (uint64, error) { return uint64(t.Rank()) * 7, nil })
	if err != nil {
		return w, err
	}
	side := t.Fork()
	odd, err := t.Split(ctx, t.Rank()%2, 0)
	if err != nil {
		return w, err
	}
	if w.Sum, err = coppice.AllReduce(ctx, t, seed+1, coppice.Sum); err != nil {
		return w, err
	}
	for ; w.Round < rounds; w.Round++ {
		if err := coppice.Save(ctx, t, &w); err != nil {
			return w, err
		}
		if err := w.step(ctx, t, side, odd); err != nil {
			return w, err
		}
	}
	return w, nil
}

// step is one round.
func (w *walk) step(ctx context.Context, t, side, odd *coppice.Task) error {
	n := t.Size()
	if err := coppice.Send(ctx, t, (t.Rank()+1)%n, 3, w.Sum); err != nil {
		return err
	}
	from, err := coppice.Recv[uint64](ctx, t, (t.Rank()+n-1)%n, 3)
	if err != nil {
		return err
	}
	half, err := coppice.AllReduce(ctx, odd, from*31+w.Sum+t.Rand().Uint64(), coppice.Xor)
	if err != nil {
		return err
	}
	more := coppice.Go(side, func(f *coppice.Task) (uint64, error) {
		return coppice.Broadcast(ctx, f, half, coppice.Root(w.Round%n))
	})
	again, err := t.Split(ctx, t.Rank()/2, -t.Rank())
	if err != nil {
		return err
	}
	pair, err := coppice.AllGather(ctx, again, half)
	if err != nil {
		return err
	}
	late, err := more.Wait(ctx)
	if err != nil {
		return err
	}
	drawn, err := coppice.Once(ctx, t, func(context.Context) (uint64, error) { return late ^ uint64(w.Round), nil })
	if err != nil {
		return err
	}
	for _, p := range pair {
		drawn = drawn*33 + p
	}
	if w.Sum, err = coppice.AllReduce(ctx, t, drawn, coppice.Sum); err != nil {
		return err
	}
	w.Trail = append(w.Trail, w.Sum)
	for i := range w.Rest {
		w.Rest[i] += float64(w.Sum % 1000)
	}
	if n := len(w.Rest); n > 0 {
		w.Sum += uint64(w.Rest[n-1])
	}
	return nil
}

// walked runs walks in a job of goroutines and returns the trail, which must be the same at all tasks.
func walked(t *testing.T, job coppice.Job, rounds int, kills ...string) []uint64 {
	t.Helper()
	var trail atomic.Pointer[[]uint64]
	err := job.Run(coppicetest.WithKills(t.Context(), kills...), func(ctx context.Context, task *coppice.Task) error {
		w, err := walks(ctx, task, rounds, 3)
		if err != nil {
			return err
		}
		if old := trail.Swap(&w.Trail); old != nil && !slices.Equal(*old, w.Trail) {
			return fmt.Errorf("task %d: %v, another one %v", task.Rank(), w.Trail, *old)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return *trail.Load()
}

func TestSaveResumes(t *testing.T) {
	want := walked(t, coppice.Job{Local: 5}, 8)
	if len(want) != 8 {
		t.Fatal(want)
	}
	for _, kills := range [][]string{
		{"1@save#1"},
		{"1@save#1/1"},
		{"1@save#1/2"},
		{"1@save#1/3"},
		{"1@save#1/4"},
		{"1@save#1/5"},
		{"2@save#4"},
		{"2@save#4/1"},
		{"2@save#4/3"},
		{"2@save#4/5"},
		{"0@save#4/5"},
		{"0@save#5/1"},
		{"3@once#1"},
		{"3@once#1/1"},
		{"3@once#1/2"},
		{"3@once#4/1"},
		{"3@once#4/3"},
		{"2@allreduce#9/1"},
		{"4@recv#3"},
		{"0@split#5/1"},
		{"1@save#3/2", "2@save#3/1", "3@once#5/1", "4@save#7/5"},
		{"0@allreduce#5", "1@allreduce#11/2", "2@save#6/3"},
	} {
		t.Run(fmt.Sprint(kills), func(t *testing.T) {
			if got := walked(t, coppice.Job{Local: 5}, 8, kills...); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// savesVariable is the environment variable with the number of saving jobs to run with crashes, instead
// of the usual few.
const savesVariable = "COPPICE_SAVES"

func init() { stage.Plays["walk"] = walking }

// walking is walks as a play. Its arguments are the number of rounds, and of further numbers in the
// state. It reports a digest of the trail.
func walking(tell func(stage.Line), args []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		w, err := walks(ctx, t, stage.Number(args[0]), stage.Number(args[1]))
		if err != nil {
			stage.Telling(tell, t)(stage.Failure("error", err))
			return err
		}
		stage.Telling(tell, t)(stage.Line{What: "trail", Text: fmt.Sprint(w.Trail), Value: t.Attempt()})
		return nil
	}
}

// savedJob returns a random job of processes that save, of which some crash.
func savedJob(seed uint64, most int) (s stage.Scene) {
	rng := rand.New(rand.NewPCG(seed, 8))
	rounds := 1 + rng.IntN(6)
	s.N = 2 + rng.IntN(5)
	s.Play = []string{"walk", fmt.Sprint(rounds), fmt.Sprint([]int{0, 10, 40000}[rng.IntN(3)])}
	s.Copies = most
	s.Tasks = s.N + rng.IntN(2)*rng.IntN(s.N)
	for _, task := range rng.Perm(s.N)[:min(1+rng.IntN(most), s.N-1)] {
		op := []string{"save", "once", "allreduce", "recv", "split", "allgather"}[rng.IntN(6)]
		k := control.Kill{Task: task * s.Tasks / s.N, Op: op, Seq: 1 + rng.IntN(rounds), Step: rng.IntN(7)}
		if op == "recv" {
			k.Step = 0
		}
		s.Kill = append(s.Kill, k.String())
	}
	return s
}

// TestSavedJobs: whichever process crashes where, the final states of the tasks are those of a run
// without crashes.
func TestSavedJobs(t *testing.T) {
	jobs := stage.Short(24, 6)
	if n := os.Getenv(savesVariable); n != "" {
		jobs = stage.Number(n)
	}
	seed := stage.Drawn(savesVariable)
	for i := range jobs {
		s := savedJob(seed+uint64(i), 2)
		calm := s
		calm.Kill = nil
		x, err := calm.Local(t)
		if err != nil {
			t.Fatalf("seed %d: %v", seed+uint64(i), err)
		}
		want := x.Of("trail")[0].Text
		check := func(where string, x *stage.Script) {
			t.Helper()
			done := map[int]bool{}
			for _, l := range x.Of("trail") {
				done[l.Rank] = true
				if l.Text != want {
					t.Errorf("%s: seed %d, %v: task %d has %s, want %s", where, seed+uint64(i), s, l.Rank, l.Text, want)
				}
			}
			if errs := x.Of("error"); len(errs) > 0 || len(done) != s.Tasks {
				t.Errorf("%s: seed %d, %v: %d of %d tasks; %v", where, seed+uint64(i), s, len(done), s.Tasks, errs)
			}
		}
		if x, err = s.Local(t); err != nil {
			t.Errorf("seed %d, %v: %v", seed+uint64(i), s, err)
		}
		check("Local", x)
		if i%4 == 0 {
			x, report := s.Real(t)
			check("processes", x)
			if report.Exit != 0 {
				t.Errorf("seed %d, %v: exit %d: %s", seed+uint64(i), s, report.Exit, report.Cause)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestSaveMisused: misuse never hangs, and all tasks get the error.
func TestSaveMisused(t *testing.T) {
	for name, c := range map[string]struct {
		play  func(ctx context.Context, t *coppice.Task) error
		want  error
		words string
	}{
		"a message that nobody has received": {func(ctx context.Context, t *coppice.Task) error {
			if t.Rank() == 1 {
				if err := coppice.Send(ctx, t, 2, 5, "late"); err != nil {
					return err
				}
			}
			return coppice.Save(ctx, t, new(int))
		}, coppice.ErrMismatch, "sent before this Save and not received: 1"},
		"another operation": {func(ctx context.Context, t *coppice.Task) error {
			if t.Rank() == 1 {
				return coppice.Barrier(ctx, t)
			}
			return coppice.Save(ctx, t, new(int))
		}, coppice.ErrMismatch, "barrier"},
		"a task that returns": {func(ctx context.Context, t *coppice.Task) error {
			if t.Rank() == 1 {
				return nil
			}
			return coppice.Save(ctx, t, new(int))
		}, coppice.ErrMismatch, "task 1 has returned without taking part"},
		"on a fork": {func(ctx context.Context, t *coppice.Task) error {
			return coppice.Save(ctx, t.Fork(), new(int))
		}, nil, "allowed: on the task that the function was given"},
		"a future under way": {func(ctx context.Context, t *coppice.Task) error {
			wait := make(chan struct{})
			f := coppice.Go(t, func(*coppice.Task) (int, error) { <-wait; return 0, nil })
			err := coppice.Save(ctx, t, new(int))
			close(wait)
			_, _ = f.Wait(ctx)
			return err
		}, nil, "1 of the task's futures are not done"},
		"a group made between two Saves": {func(ctx context.Context, t *coppice.Task) error {
			if err := coppice.Save(ctx, t, new(int)); err != nil {
				return err
			}
			f := t.Fork()
			if err := coppice.Barrier(ctx, f); err != nil {
				return err
			}
			if err := coppice.Save(ctx, t, new(int)); err != nil {
				return err
			}
			return coppice.Barrier(ctx, f)
		}, coppice.ErrMismatch, "epoch that is over"},
		"a type that cannot be sent": {func(ctx context.Context, t *coppice.Task) error {
			return coppice.Save(ctx, t, new(func()))
		}, nil, "func()"},
		"an ended context": {func(ctx context.Context, t *coppice.Task) error {
			if t.Rank() == 1 {
				ended, cancel := context.WithCancelCause(ctx)
				cancel(stage.ErrEnough)
				return coppice.Save(ended, t, new(int))
			}
			return coppice.Save(ctx, t, new(int))
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := coppice.Local(t.Context(), 3, c.play)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v; want %v, with %q", err, c.want, c.words)
			}
		})
	}
}

// TestSaveWithoutReplay: without Replay no process could resume from a Save.
func TestSaveWithoutReplay(t *testing.T) {
	job := coppice.Job{Local: 2, Recovery: coppice.Report}
	err := job.Run(t.Context(), func(ctx context.Context, t *coppice.Task) error { return coppice.Save(ctx, t, new(int)) })
	if err == nil || !strings.Contains(err.Error(), "allowed: with Recovery Replay") {
		t.Error(err)
	}
}

// TestSaveOfAnotherType: the first Save of a task that is run again is not always the one that saved.
func TestSaveOfAnotherType(t *testing.T) {
	job := coppice.Job{Local: 3}
	err := job.Run(coppicetest.WithKills(t.Context(), "1@barrier#1"), func(ctx context.Context, t *coppice.Task) error {
		if err := coppice.Save(ctx, t, new(int)); err != nil {
			return err
		}
		if err := coppice.Save(ctx, t, new([]string)); err != nil {
			return err
		}
		return coppice.Barrier(ctx, t)
	})
	if !errors.Is(err, coppice.ErrMismatch) || !strings.Contains(err.Error(), "another type than before") {
		t.Error(err)
	}
}
