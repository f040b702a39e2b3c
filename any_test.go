package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// inAnyOrder is a program whose task 0 takes what the others send as it comes, and tells each after how many it came: what it says depends on the
// order.
func inAnyOrder(ctx context.Context, t *coppice.Task) (int, error) {
	s := struct{ Round, Sum int }{}
	for ; s.Round < 2; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return 0, err
		}
		const each = 2
		if t.Rank() > 0 {
			for i := range each {
				if err := coppice.Send(ctx, t, 0, 1, i+t.Rank()); err != nil {
					return 0, err
				}
				if _, err := coppice.Recv[string](ctx, t, 0, 2); err != nil {
					return 0, err
				}
			}
			continue
		}
		order := ""
		for range each * (t.Size() - 1) {
			v, from, err := coppice.RecvAny[int](ctx, t, 1)
			if err != nil {
				return 0, err
			}
			s.Sum += v
			order += fmt.Sprintf("%d ", from)
			if err := coppice.Send(ctx, t, from, 2, order); err != nil {
				return 0, err
			}
		}
	}
	return s.Sum, nil
}

// TestRecvAnySurvives: whoever dies at whatever step, the order stays what it was, or ErrDiverged would say so.
func TestRecvAnySurvives(t *testing.T) {
	runs := 300
	if testing.Short() {
		runs = 60
	}
	coppicetest.Survives(t, 3, inAnyOrder, coppicetest.Options{Runs: runs})
}

// TestRecvAnyIsFair: no sender is served twice while others wait.
func TestRecvAnyIsFair(t *testing.T) {
	const n, each = 4, 50
	err := coppice.Local(t.Context(), n, func(ctx context.Context, task *coppice.Task) error {
		if task.Rank() > 0 {
			for i := range each {
				if err := coppice.Send(ctx, task, 0, 1, i); err != nil {
					return err
				}
			}
			return coppice.Barrier(ctx, task)
		}
		if err := coppice.Barrier(ctx, task); err != nil { // all is there
			return err
		}
		for i := range each {
			for r := 1; r < n; r++ {
				v, from, err := coppice.RecvAny[int](ctx, task, 1)
				if err != nil || v != i || from != r {
					return fmt.Errorf("%d from %d, want %d from %d: %w", v, from, i, r, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRecvAnyInVain: an error says why no message comes.
func TestRecvAnyInVain(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		report bool
		others func(ctx context.Context, t *coppice.Task) error
		want   error
		text   string
	}{
		{"all have returned", 3, false, func(context.Context, *coppice.Task) error { return nil }, coppice.ErrMismatch, " has returned and sent nothing more with tag 1"},
		{"another tag", 2, false, func(ctx context.Context, t *coppice.Task) error { return coppice.Send(ctx, t, 0, 2, 1) }, coppice.ErrMismatch, "task 1 has returned"},
		{"another type", 2, false, func(ctx context.Context, t *coppice.Task) error { return coppice.Send(ctx, t, 0, 1, "x") }, coppice.ErrMismatch, "task 0 receives int, which is not the type that task 1 sent"},
		{"nobody else", 1, false, nil, coppice.ErrMismatch, "there is no other task"},
		{"the context", 2, false, func(ctx context.Context, t *coppice.Task) error {
			time.Sleep(300 * time.Millisecond)
			return nil
		}, context.DeadlineExceeded, ""},
		{"they fail", 3, true, func(context.Context, *coppice.Task) error { return errors.New("no") }, coppice.ErrLost, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := coppice.Job{Local: c.n}
			if c.report {
				job.Recovery = coppice.Report
			}
			err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
				if task.Rank() > 0 {
					return c.others(ctx, task)
				}
				if c.want == context.DeadlineExceeded {
					limited, stop := context.WithTimeout(ctx, 100*time.Millisecond)
					defer stop()
					ctx = limited
				}
				_, _, err := coppice.RecvAny[int](ctx, task, 1)
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%v, want %v: %s", err, c.want, c.text)
				}
				return nil
			})
			_ = err // that of the others
		})
	}
}

// TestRecvAnyFromWhoLives: with Report, what the others send comes although one is dead.
func TestRecvAnyFromWhoLives(t *testing.T) {
	job := coppice.Job{Local: 3, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(t.Context(), "1@send#1"), func(ctx context.Context, task *coppice.Task) error {
		if task.Rank() > 0 {
			return coppice.Send(ctx, task, 0, 1, task.Rank())
		}
		if v, from, err := coppice.RecvAny[int](ctx, task, 1); v != 2 || from != 2 || err != nil {
			t.Error(v, from, err)
		}
		if _, _, err := coppice.RecvAny[int](ctx, task, 1); err == nil {
			t.Error("a third message")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
