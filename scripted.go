package coppice

import (
	"context"

	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol/collective"
)

// What a task does in its groups goes through the functions of this file, which record it, or, in a rehearsal, return what is recorded.

// scripted reports whether what the task does is recorded, or rehearsed.
func (k *trunk) scripted() bool {
	return k.rehearsal != nil || k.recorder != nil && k.recorder.on.Load()
}

// script makes a call that is recorded, or returns what is recorded of it.
func (t *Task) script(c callRecord, call func() callResult) callResult {
	if t.trunk.rehearsal != nil {
		t.at()
		return t.trunk.rehearsal.next(t, &c)
	}
	return t.trunk.recorder.record(t, c, call)
}

func (t *Task) carryOutScripted(ctx context.Context, call *node.Call) (node.Result, error) {
	c := *call // the caller's own stays on its stack
	r := t.script(callRecord{op: c.Op(), plan: c.Plan, typ: c.Type, sign: c.Sign, value: c.Value, values: c.Values}, func() (r callResult) {
		r.Result, r.err = t.reallyCarryOut(ctx, &c)
		return r
	})
	return r.Result, r.err
}

func (t *Task) send(ctx context.Context, to, tag int, sign uint64, typ string, value []byte) error {
	if !t.trunk.scripted() {
		return t.at().Send(ctx, to, tag, sign, value)
	}
	return t.script(callRecord{op: "send", peer: to, tag: tag, sign: sign, typ: typ, value: value}, func() callResult {
		return callResult{err: t.at().Send(ctx, to, tag, sign, value)}
	}).err
}

func (t *Task) recv(ctx context.Context, from, tag int, sign uint64, typ string) (node.Result, error) {
	if !t.trunk.scripted() {
		return t.at().Recv(ctx, from, tag, sign, typ)
	}
	r := t.script(callRecord{op: "recv", peer: from, tag: tag, sign: sign, typ: typ}, func() (r callResult) {
		r.Result, r.err = t.at().Recv(ctx, from, tag, sign, typ)
		return r
	})
	return r.Result, r.err
}

func (t *Task) agree(ctx context.Context, c node.Call) (d node.Decision, err error) {
	if !t.trunk.scripted() {
		return t.at().Agree(ctx, c)
	}
	r := t.script(callRecord{op: "agree", typ: c.Type, sign: c.Sign, value: c.Value}, func() (r callResult) {
		d, err := t.at().Agree(ctx, c)
		r.Value, r.failed, r.err = d.Value, d.Failed, err
		return r
	})
	return node.Decision{Value: r.Value, Failed: r.failed}, r.err
}

// once returns what is kept of a Once, or else what f returns.
func (t *Task) once(ctx context.Context, sign uint64, at node.Elsewhere, f func() ([]byte, error)) (b []byte, kept bool, err error) {
	if !t.trunk.scripted() {
		return t.at().Once(ctx, sign, at, f)
	}
	kept = true // in a rehearsal
	r := t.script(callRecord{op: "once", sign: sign}, func() (r callResult) {
		var own []byte
		r.Value, kept, r.err = t.at().Once(ctx, sign, at, func() (_ []byte, err error) {
			own, err = f()
			r.refused = err != nil
			return own, err
		})
		if !kept {
			r.Value = own
		}
		return r
	})
	if r.refused && t.trunk.rehearsal != nil {
		return nil, false, programError{r.err}
	}
	return r.Value, kept, r.err
}

// programError is an error of the function of a Once, in a rehearsal, in which it is not called.
type programError struct{ error }

func (t *Task) abandon(op collective.Op) {
	if t.trunk.rehearsal == nil {
		t.at().Abandon(op)
	}
}

// differs is the error of a rehearsal in which the task did something else; nil: there is none.
func (k *trunk) differs() error {
	if k.recorder == nil {
		return nil
	}
	if e := k.recorder.differs.Load(); e != nil {
		return *e
	}
	return nil
}
