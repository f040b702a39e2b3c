package state_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/stage"
)

// TestOperationsWithinOnce: an attempt that runs the task again does not call the function, and would
// take later operations for those called in it.
func TestOperationsWithinOnce(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, t *coppice.Task) error{
		"once": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Once(ctx, t, func(context.Context) (int, error) { return 2, nil })
			return err
		},
		"save":    func(ctx context.Context, t *coppice.Task) error { return coppice.Save(ctx, t, new(int)) },
		"barrier": func(ctx context.Context, t *coppice.Task) error { return coppice.Barrier(ctx, t) },
		"allreduce": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllReduce(ctx, t, 1, coppice.Sum)
			return err
		},
		"send": func(ctx context.Context, t *coppice.Task) error { return coppice.Send(ctx, t, 0, 0, 1) },
		"recv": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Recv[int](ctx, t, 0, 0)
			return err
		},
	} {
		for where, opts := range map[string][]coppice.SaveOption{"copies": nil, "files": {coppice.Stored(t.TempDir())}} {
			t.Run(name+" "+where, func(t *testing.T) {
				err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
					_, err := coppice.Once(ctx, task, func(ctx context.Context) (int, error) { return 1, call(ctx, task) }, opts...)
					if !errors.Is(err, coppice.ErrMismatch) || !strings.Contains(err.Error(), "calls "+name+" within the function of Once") {
						t.Errorf("task %d: %v", task.Rank(), err)
					}
					return coppice.Barrier(ctx, task) // all is well again
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func init() { stage.Plays["empty"] = empties }

// empties saves a state without any bytes.
func empties(func(stage.Line), []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		if err := coppice.Save(ctx, t, new(struct{})); err != nil {
			return err
		}
		return coppice.Barrier(ctx, t)
	}
}

// TestEmptyStateIsAState: an empty state does not count as lost.
func TestEmptyStateIsAState(t *testing.T) {
	s := stage.Scene{N: 3, Play: []string{"empty"}}
	s.Kill = []string{"1@barrier#1"}
	if _, report := s.Real(t); report.Exit != 0 || len(report.Killed) != 1 {
		t.Errorf("exit %d, killed %v: %s", report.Exit, report.Killed, report.Cause)
	}
}

func TestSaveWithoutState(t *testing.T) {
	err := coppice.Local(t.Context(), 1, func(ctx context.Context, t *coppice.Task) error { return coppice.Save[int](ctx, t, nil) })
	if err == nil || !strings.Contains(err.Error(), "save: no state; allowed: a pointer to one") {
		t.Error(err)
	}
}

// TestSaveOfTwoTypes: tasks that save values of two types get an error, since neither's function could
// resume from the other's state.
func TestSaveOfTwoTypes(t *testing.T) {
	for i := range 60 { // whether a task hears of it before the epoch is committed differs
		odd, failed := i%3, make([]error, 3)
		result := coppice.Local(t.Context(), 3, func(ctx context.Context, task *coppice.Task) error {
			err := coppice.Save(ctx, task, new(int)) // of one type
			if err == nil && task.Rank() == odd {
				err = coppice.Save(ctx, task, new(string))
			} else if err == nil {
				err = coppice.Save(ctx, task, new(int))
			}
			failed[task.Rank()] = err
			return err
		})
		for rank, err := range failed {
			if !errors.Is(err, coppice.ErrMismatch) || !strings.Contains(err.Error(), "saves a value of another type than task") {
				t.Errorf("task %d saves a string: task %d gets %v; the job: %v", odd, rank, err, result)
			}
		}
	}
}
