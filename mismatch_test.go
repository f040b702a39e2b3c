package coppice_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/stage"
)

// reduced is an AllReduce of a number.
func reduced[T coppice.Numeric](v T, op coppice.Op) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.AllReduce(ctx, t, v, op)
		return err
	}
}

// TestMismatchNamesTheDifference: as a program sees it, and nothing of how an operation is
// carried out.
func TestMismatchNamesTheDifference(t *testing.T) {
	type pair struct{ A, B int }
	function := func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.AllReduceFunc(ctx, t, 1, func(a, b int) int { return a + b })
		return err
	}
	for name, c := range map[string]struct {
		calls [2]deed
		words [2]string
	}{
		"type":        {[2]deed{reduced(1, coppice.Sum), reduced(1.5, coppice.Sum)}, [2]string{"allreduce of int with sum", "allreduce of float64 with sum"}},
		"operator":    {[2]deed{reduced(1, coppice.Sum), reduced(1, coppice.Max)}, [2]string{"allreduce of int with sum", "allreduce of int with max"}},
		"function":    {[2]deed{reduced(1, coppice.Sum), function}, [2]string{"allreduce of int with sum", "allreduce of int with a function"}},
		"slice":       {[2]deed{reduced([]int{1}, coppice.Sum), reduced(1, coppice.Sum)}, [2]string{"allreduce of []int with sum", "allreduce of int with sum"}},
		"operation":   {[2]deed{reduced(1, coppice.Sum), stage.Barrier}, [2]string{"allreduce", "barrier"}},
		"broadcast":   {[2]deed{broadcastFrom[int](0), broadcastFrom[string](0)}, [2]string{"broadcast from 0 of int", "broadcast from 0 of string"}},
		"unusual one": {[2]deed{broadcastFrom[int](0), broadcastFrom[pair](0)}, [2]string{"broadcast from 0 of int", "broadcast from 0 of "}},
	} {
		t.Run(name, func(t *testing.T) {
			err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
				err := c.calls[task.Rank()](ctx, task)
				return errors.Join(err, coppice.Barrier(ctx, task)) // for who has its result already
			})
			if !errors.Is(err, coppice.ErrMismatch) {
				t.Fatal(err)
			}
			text := err.Error()
			for _, words := range c.words {
				if !strings.Contains(text, " calls "+words) {
					t.Errorf("%q is not in %s", words, text)
				}
			}
			for _, internal := range []string{" by ", "in any order", "the same", "pieces"} {
				if strings.Contains(text, internal) {
					t.Errorf("%q is in %s", internal, text)
				}
			}
		})
	}
}

// TestUnsentMessageIsNamed: with its tag, and what has come with others.
func TestUnsentMessageIsNamed(t *testing.T) {
	err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
		if task.Rank() == 0 {
			return errors.Join(coppice.Send(ctx, task, 1, 7, 1), coppice.Send(ctx, task, 1, 9, 1))
		}
		_, err := coppice.Recv[int](ctx, task, 0, 5)
		return err
	})
	want := "task 0 has returned and sent nothing more with tag 5; what it sent with other tags has come and waits for Recv: tags [7 9]"
	if !errors.Is(err, coppice.ErrMismatch) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
