package coppice

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/store"
)

// Save saves the task's state and begins a new epoch: if the task is run again, it resumes
// here. All tasks call it at the same points, with values of one type; otherwise it is [ErrMismatch],
// unless the states are Stored: these are not compared. It returns when
// all have saved, each with Job.Copies copies at other processes, or in a file (Stored); what
// was kept for replay of the operations since the Save before is dropped, and memory that
// was lent with Shared may be used again.
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
// copies of a task's state are lost, the task is: [ErrLost], never an older state.
func Save[S any](ctx context.Context, t *Task, state *S, opts ...SaveOption) error {
	_, err := perform(ctx, t, "save", nil, func(t *Task, _ settings) (none struct{}, err error) { return none, save(ctx, t, state, opts) })
	return err
}

func save[S any](ctx context.Context, t *Task, state *S, opts []SaveOption) error {
	c, err := codec.For[S]()
	if err == nil && state == nil {
		err = errors.New("no state; allowed: a pointer to one")
	}
	if err == nil {
		err = t.saves()
	}
	if r := t.trunk.rehearsal; r != nil && err == nil {
		return rehearseSave(r, t, c, state)
	}
	var f *files
	if err == nil {
		f, err = t.files(opts)
	}
	if err != nil {
		return err
	}
	var kept []byte
	on := t.trunk.recorder.pause()
	b, epoch, next, err := t.m.Resume(ctx, c.Signature())
	if err == nil && next != nil {
		if b == nil {
			b, err = t.stateAgain(f, epoch, c.Signature())
		}
		if err == nil {
			err = c.Decode(b, state, false)
		}
		if err == nil {
			if t.trunk.recorder.keeps(on) {
				kept = bytes.Clone(b)
			}
			t.trunk.recorder.saved(on, true, kept, next)
			t.enter(next)
		}
		return err
	}
	var saving node.Saving
	if err == nil {
		saving, err = saved(ctx, t, c, state, f)
	}
	if err == nil {
		if t.trunk.recorder.keeps(on) {
			kept = bytes.Clone(saving.State)
		}
		next, err = t.m.Save(ctx, saving)
	}
	if err != nil {
		return err
	}
	t.trunk.recorder.saved(on, saving.Epoch > 0, kept, next)
	t.enter(next)
	t.tidy(f)
	return nil
}

// saved is what the task saves: *state, or, if its job is taken up again and this is the first
// Save, what *state is set to.
func saved[S any](ctx context.Context, t *Task, c *codec.Codec[S], state *S, f *files) (s node.Saving, err error) {
	s = node.Saving{Sign: c.Signature(), Type: c.Name(), Stored: f != nil}
	if f != nil && t.m.Epoch() == 0 && (t.trunk.archive.run.Resume || t.trunk.archive.run.Restarted) {
		if s.Epoch, s.State, err = t.takeUp(ctx, f, s.Sign); err != nil {
			return s, err
		}
	}
	if s.Epoch > 0 {
		err = c.Decode(s.State, state, false)
	} else {
		s.State, err = c.Append(t.m.SaveRoom(), state)
	}
	if s.State == nil {
		s.State = []byte{}
	}
	if err == nil && f != nil && s.Epoch == 0 {
		err = f.Save(t.m.Epoch()+1, s.Sign, s.State)
	}
	return s, err
}

// saves tells why the task cannot save its state, if it cannot.
func (t *Task) saves() error {
	switch {
	case !t.m.Replays():
		return errors.New("the job reports deaths; allowed: with Recovery Replay")
	case t.fork:
		return errors.New("called on a fork or a group; allowed: on the task that the function was given")
	case t.trunk.futures.Load() > 0:
		return fmt.Errorf("%d of the task's futures are not done; allowed: when all are", t.trunk.futures.Load())
	}
	return nil
}

// enter goes on in an epoch.
func (t *Task) enter(m *node.Member) {
	t.m, t.rand = m, nil
	t.trunk.epoch.Store(m.Epoch())
}

// at is the task's place in its group, in the epoch that the task is in.
func (t *Task) at() *node.Member {
	if t.first != nil {
		if epoch := t.trunk.epoch.Load(); epoch != t.m.Epoch() {
			if r := t.trunk.rehearsal; r != nil {
				t.m, t.rand = r.member(t.first), nil
			} else {
				t.m, t.rand = t.first.Later(epoch), nil
			}
		}
	}
	return t.m
}

// Once returns what f returns. If the task is run again, it returns that again, from one of
// Job.Copies copies at other processes, and does not call f: for what comes from outside, such
// as files, clocks and random numbers. It returns when there are as many copies. If the task's process
// dies before, f may be called again; an error that f returns is not kept. If all copies are lost, so is
// the task: [ErrLost]; but if nobody who lives has received anything that may follow from the value,
// f is called again. With Stored it is kept in a file instead. In f the task calls no
// operations: they would be missing when it is run again, so they fail.
//
//	points, err := coppice.Once(ctx, t, func(ctx context.Context) ([]float64, error) { return load(t.Rank()) })
func Once[T any](ctx context.Context, t *Task, f func(ctx context.Context) (T, error), opts ...SaveOption) (v T, err error) {
	const op = "once"
	if err := t.usable(ctx, op); err != nil {
		return v, err
	}
	c, err := codec.For[T]()
	if err == nil && f == nil {
		err = errors.New("no function; allowed: one for the value")
	}
	var at node.Elsewhere
	if err == nil && t.trunk.rehearsal == nil {
		at, err = t.elsewhere(opts)
	}
	if err != nil {
		return v, t.failed(op, err)
	}
	if !t.m.Replays() {
		return f(ctx)
	}
	var own T
	var failed error // f, whose error is the program's
	b, kept, err := t.once(ctx, c.Signature(), at, func() (b []byte, err error) {
		t.trunk.asking.Add(1)
		defer t.trunk.asking.Add(-1)
		if own, failed = ask(func() (T, error) { return f(ctx) }); failed != nil {
			return nil, failed
		}
		if t.trunk.asked.Swap(false) {
			return nil, t.m.WithinOnce("fork")
		}
		return encode(c, &own, false, nil)
	})
	if p, ok := err.(programError); ok {
		return v, p.error
	}
	switch {
	case failed != nil:
		return v, failed
	case errors.Is(err, store.ErrDamaged):
		err = t.m.Lose(err.Error())
	case err == nil && !kept:
		return own, nil
	case err == nil:
		err = c.Decode(b, &v, false)
	}
	return v, t.failed(op, err)
}
