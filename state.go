package coppice

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/runtime"
)

// Save saves the task's state and begins a new epoch: if the task is run again, it resumes
// here. All tasks call it at the same points, with values of one type. It returns when
// all have saved, each with Job.Copies copies at other processes; what was kept for replay
// of the operations since the Save before is dropped, and memory that was lent with Shared
// may be used again.
//
// A task that is run again runs its function from the top, with what it got before, to its
// first Save, wherever that is called: it sets *state to what the task saved last. So a
// program keeps all that changes in *state, and its loop begins with Save:
//
//	s := struct{ Round int; Centers []float64 }{Centers: first}
//	for ; s.Round < rounds; s.Round++ {
//		if err := coppice.Save(ctx, t, &s); err != nil {
//			return err
//		}
//		…
//	}
//
// Save is called on the task that the function was given, while nothing runs on its forks.
// What was sent before is received before, otherwise it is ErrMismatch. Forks and
// groups made before the first Save go on; those made later end with the next one. If all
// copies of a task's state are lost, the task is: ErrLost, never an older state.
func Save[S any](ctx context.Context, t *Task, state *S) error {
	const op = "save"
	c, err := codec.For[S]()
	if err == nil {
		err = t.saves()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	b, epoch, next, err := t.m.Resume(ctx, c.Signature())
	switch {
	case err != nil:
		return t.failed(op, err)
	case next != nil && b == nil:
		return t.failed(op, t.m.Lose(fmt.Sprintf("no process has its state of epoch %d any more", epoch)))
	case next != nil:
		if err := c.Decode(b, state, false); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		t.enter(next)
		return nil
	}
	b, err = c.Append(t.m.SaveRoom(), state)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if b == nil {
		b = []byte{}
	}
	next, err = t.m.Save(ctx, runtime.Saving{State: b, Sign: c.Signature(), Type: c.Name()})
	if err != nil {
		return t.failed(op, err)
	}
	t.enter(next)
	return nil
}

// saves tells why the task cannot save its state, if it cannot.
func (t *Task) saves() error {
	switch {
	case !t.m.Replays():
		return fmt.Errorf("the job reports deaths; allowed: with Recovery Replay")
	case t.fork:
		return fmt.Errorf("called on a fork or a group; allowed: on the task that the function was given")
	case t.trunk.futures.Load() > 0:
		return fmt.Errorf("%d of the task's futures are not done; allowed: when all are", t.trunk.futures.Load())
	}
	return nil
}

// enter goes on in an epoch.
func (t *Task) enter(m *runtime.Member) {
	t.m, t.rand = m, nil
	t.trunk.epoch.Store(m.Epoch())
}

// at is the task's place in its group, in the epoch that the task is in.
func (t *Task) at() *runtime.Member {
	if t.first != nil {
		if epoch := t.trunk.epoch.Load(); epoch != t.m.Epoch() {
			t.m, t.rand = t.first.Later(epoch), nil
		}
	}
	return t.m
}

// Once returns what f returns. If the task is run again, it returns that again, from one of
// Job.Copies copies at other processes, and does not call f: for what comes from outside, such
// as files, clocks and random numbers. It returns when there are as many copies. If the task's process
// dies before, f may be called again; an error that f returns is not kept.
//
//	points, err := coppice.Once(ctx, t, func(ctx context.Context) ([]float64, error) { return load(t.Rank()) })
func Once[T any](ctx context.Context, t *Task, f func(ctx context.Context) (T, error)) (v T, err error) {
	const op = "once"
	c, err := codec.For[T]()
	if err == nil && f == nil {
		err = fmt.Errorf("no function; allowed: one for the value")
	}
	if err != nil {
		return v, fmt.Errorf("%s: %w", op, err)
	}
	m := t.at()
	if !m.Replays() {
		return f(ctx)
	}
	key := m.OnceKey()
	b, ok, err := m.Recall(ctx, op, key, c.Signature())
	if err != nil {
		return v, t.failed(op, err)
	}
	if ok {
		if err := c.Decode(b, &v, false); err != nil {
			return v, fmt.Errorf("%s: %w", op, err)
		}
		return v, nil
	}
	w, err := f(ctx)
	if err != nil {
		return v, err
	}
	if b, err = c.Append(nil, &w); err != nil {
		return v, fmt.Errorf("%s: %w", op, err)
	}
	if b == nil {
		b = []byte{}
	}
	if err := m.Keep(ctx, op, key, c.Signature(), b); err != nil {
		return v, t.failed(op, err)
	}
	return w, nil
}
