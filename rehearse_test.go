package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/watch"
)

// allKinds is a program with all kinds of operations that does the same each time.
func allKinds(ctx context.Context, t *coppice.Task) error {
	s := struct {
		Round int
		Sum   float64
		Parts [][]int
		Names map[string]int
	}{Names: map[string]int{}}
	fork := t.Fork()
	rows, err := t.Split(ctx, t.Rank()%2, t.Rank())
	if err != nil {
		return err
	}
	seed, err := coppice.Once(ctx, t, func(context.Context) (int64, error) { return time.Now().UnixNano(), nil })
	if err != nil {
		return err
	}
	n := t.Size()
	for ; s.Round < 4; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return err
		}
		beside := coppice.Go(t, func(t *coppice.Task) (int, error) { return coppice.Broadcast(ctx, t, s.Round, coppice.Root(1)) })
		if err := coppice.Send(ctx, t, (t.Rank()+1)%n, s.Round, fmt.Sprint(seed, t.Rand().Uint64())); err != nil {
			return err
		}
		text, err := coppice.Recv[string](ctx, t, (t.Rank()+n-1)%n, s.Round)
		if err != nil {
			return err
		}
		s.Names[text] = len(text)
		sum, err := coppice.AllReduce(ctx, rows, float64(s.Round)+0.5, coppice.Sum)
		if err != nil {
			return err
		}
		parts := make([][]int, n)
		for r := range parts {
			parts[r] = make([]int, r)
		}
		if s.Parts, err = coppice.AllToAll(ctx, fork, parts); err != nil {
			return err
		}
		again, err := coppice.Reduce(ctx, t, []int{1, 2, s.Round}, coppice.Max, coppice.Root(2%n))
		if err != nil {
			return err
		}
		if _, err := coppice.Gather(ctx, fork, again); err != nil {
			return err
		}
		if _, err := coppice.AllReduceFunc(ctx, t, s.Sum, func(a, b float64) float64 { return a + b }, coppice.Agreed()); err != nil {
			return err
		}
		b, err := beside.Wait(ctx)
		if err != nil {
			return err
		}
		s.Sum += sum + float64(b)
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
	}
	if again, err := coppice.Once(ctx, t, func(context.Context) (float64, error) { return s.Sum, nil }); err != nil || again != s.Sum {
		return fmt.Errorf("%v: %w", again, err)
	}
	return coppice.Barrier(ctx, fork)
}

// rehearsed runs a program in a job of goroutines, all of which is rehearsed.
func rehearsed(n int, f coppice.Func) error {
	return (&coppice.Job{Local: n, Rehearse: 1}).Run(watch.With(context.Background(), &watch.Watcher{}), f) // what comes after the last call, too
}

func TestRehearsalOfAProgramThatIsRight(t *testing.T) {
	var runs, rehearsals atomic.Int64
	err := rehearsed(4, func(ctx context.Context, t *coppice.Task) error {
		if runs.Add(1); t.Attempt() > 0 {
			rehearsals.Add(1)
		}
		return allKinds(ctx, t)
	})
	if err != nil {
		t.Error(err)
	}
	if rehearsals.Load() < 2*4 { // of the first Save and of the end, at least
		t.Error(rehearsals.Load(), "rehearsals")
	}
}

// TestRehearsalDoesNotRepeatTheEnd: what a program prints when it has its result comes once.
func TestRehearsalDoesNotRepeatTheEnd(t *testing.T) {
	var ends, middles atomic.Int64
	err := (&coppice.Job{Local: 2, Rehearse: 1}).Run(t.Context(), func(ctx context.Context, t *coppice.Task) error {
		if err := allKinds(ctx, t); err != nil {
			return err
		}
		middles.Add(1)
		err := coppice.Barrier(ctx, t)
		ends.Add(1)
		return err
	})
	if err != nil || ends.Load() != 2 || middles.Load() < 4 {
		t.Error(err, ends.Load(), middles.Load())
	}
}

// TestRehearsalFindsWhatDiffers: nobody is killed, and it comes to light that a program would not do the same again.
func TestRehearsalFindsWhatDiffers(t *testing.T) {
	type state struct {
		Round int
		Sum   int
	}
	saves := func(ctx context.Context, t *coppice.Task, each func(s *state) error) error {
		var s state
		for ; s.Round < 3; s.Round++ {
			if err := coppice.Save(ctx, t, &s); err != nil {
				return err
			}
			if err := each(&s); err != nil {
				return err
			}
		}
		return nil
	}
	var calls [2]atomic.Int64
	for _, c := range []struct {
		name string
		f    coppice.Func
		text string
	}{
		{"a variable is not saved", func(ctx context.Context, t *coppice.Task) error {
			total := 0
			return saves(ctx, t, func(s *state) error {
				sum, err := coppice.AllReduce(ctx, t, 1+total, coppice.Sum)
				total += sum
				return err
			})
		}, "when it is run again from its Save of epoch 2: allreduce at rehearse_test.go:"},
		{"a part of the state comes from outside", func(ctx context.Context, t *coppice.Task) error {
			return saves(ctx, t, func(s *state) error {
				s.Sum = int(calls[0].Add(1))
				return coppice.Barrier(ctx, t)
			})
		}, "saves something else: .Sum is "},
		{"another operation", func(ctx context.Context, t *coppice.Task) error {
			if t.Attempt() > 0 {
				return coppice.Barrier(ctx, t)
			}
			_, err := coppice.AllGather(ctx, t, 1)
			return err
		}, "from the start: it calls barrier at rehearse_test.go:"},
		{"one more", func(ctx context.Context, t *coppice.Task) error {
			if t.Attempt() > 0 {
				if err := coppice.Barrier(ctx, t); err != nil {
					return err
				}
			}
			return coppice.Barrier(ctx, t)
		}, "before, its function returned"},
		{"none", func(ctx context.Context, t *coppice.Task) error {
			if t.Attempt() > 0 {
				return nil
			}
			return coppice.Barrier(ctx, t)
		}, "its function returns; before, it called barrier"},
		{"another root", func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Broadcast(ctx, t, 1, coppice.Root(min(t.Attempt(), 1)))
			return err
		}, "broadcast at rehearse_test.go:"},
		{"another partner", func(ctx context.Context, t *coppice.Task) error {
			return coppice.Send(ctx, t, t.Rank(), t.Attempt(), 1)
		}, "before, for task "},
		{"a panic", func(ctx context.Context, t *coppice.Task) error {
			if t.Attempt() > 0 {
				panic("again")
			}
			return coppice.Barrier(ctx, t)
		}, "panics: again"},
		{"an error", func(ctx context.Context, t *coppice.Task) error {
			if err := coppice.Barrier(ctx, t); err != nil || t.Attempt() == 0 {
				return err
			}
			return errors.New("again")
		}, "returns an error, and before, none: again"},
		{"parts", func(ctx context.Context, t *coppice.Task) error {
			parts := [][]float64{{1}, {2, float64(calls[1].Add(1))}}
			_, err := coppice.AllToAll(ctx, t, parts)
			return err
		}, "gives something else as part 1: [1] is "},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := rehearsed(2, c.f)
			if !errors.Is(err, coppice.ErrDiverged) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v: %q is not in it", err, c.text)
			}
		})
	}
}

// TestRehearsalThatCannotEnd: the recording is full while a goroutine of the program has calls left, for which the function waits.
func TestRehearsalThatCannotEnd(t *testing.T) {
	err := (&coppice.Job{Local: 2, Rehearse: 1}).Run(t.Context(), func(ctx context.Context, t *coppice.Task) error {
		fork, done := t.Fork(), make(chan error)
		go func() {
			var err error
			for i := 0; i < 6 && err == nil; i++ { // more than is recorded
				_, err = coppice.AllReduce(ctx, fork, make([]float64, 1<<20), coppice.Sum)
			}
			done <- err
		}()
		if err := <-done; err != nil {
			return err
		}
		return coppice.Barrier(ctx, t)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRehearsalOfErrors: errors that the program knows are the same again.
func TestRehearsalOfErrors(t *testing.T) {
	err := rehearsed(2, func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Once(ctx, t, func(context.Context) (int, error) { return 0, io.EOF })
		if err != io.EOF {
			return fmt.Errorf("%w is another error", err)
		}
		short, stop := context.WithTimeout(ctx, time.Millisecond)
		defer stop()
		if _, err := coppice.Recv[int](short, t, 1-t.Rank(), 7); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w is another error", err)
		}
		return coppice.Barrier(ctx, t)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRehearsalTakesNoMoreThanItsShare: a function that works for long before its first operation is not run again for as long.
func TestRehearsalTakesNoMoreThanItsShare(t *testing.T) {
	var runs atomic.Int64
	err := (&coppice.Job{Local: 2, Rehearse: 0.02}).Run(t.Context(), func(ctx context.Context, t *coppice.Task) error {
		runs.Add(1)
		time.Sleep(100 * time.Millisecond)
		return coppice.Barrier(ctx, t)
	})
	if err != nil || runs.Load() != 2 {
		t.Error(err, runs.Load(), "runs")
	}
}
