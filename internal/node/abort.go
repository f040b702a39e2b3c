package node

import (
	"context"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Operations that all tasks complete or none (rule 6 of docs/design.md). Package recovery has the
// rule.

// agreedSpan is how many numbers of operations an aborted one takes: as many as the
// longest has parts.
const agreedSpan = 4

// present names the agreed operation that the task is in, or comes to.
func (m *Member) present() recovery.Op {
	return recovery.Op{Group: m.group, Epoch: uint64(m.epoch), Seq: m.agreed}
}

// aborted reports whether somebody has aborted that operation.
func (m *Member) aborted() bool { return m.agreed > 0 && m.p.recovery.rules.Aborted(m.present()) }

// endAborted ends waits in an operation that is aborted.
func (p *Process) endAborted(op recovery.Op) {
	for m := range p.groups.all() {
		if m.agreed > 0 && m.present() == op {
			m.abortWaits()
		}
	}
}

// abortWaits ends the task's wait in the aborted operation.
func (m *Member) abortWaits() {
	for o := range m.ops.all() {
		if o.waits() && o.seq >= m.agreed && o.seq < m.agreed+agreedSpan {
			o.fail(&Failure{Err: ErrAborted})
		}
	}
	m.ahead.wake(m)
}

// vote has the task take part in the agreed operation that it comes to now, or abort
// it. The failure is ErrAborted if somebody has.
func (m *Member) vote(ctx, patient context.Context, name string) error {
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	if err := m.usable(name); err != nil {
		return err
	}
	m.agreed = m.seq + 1
	for {
		v := p.recovery.rules.Vote(protocol.Rank(m.task), m.present(), ctx.Err() != nil)
		p.carryOut()
		switch v {
		case recovery.Enter:
			return nil
		case recovery.Abandon:
			p.endAborted(m.present())
			return &Failure{Op: name, Err: ErrAborted}
		}
		if err := p.awaitRules(patient); err != nil {
			return &Failure{Op: name, Err: err}
		}
		if err := m.usable(name); err != nil {
			return err
		}
	}
}

// passOver goes on behind the numbers of an agreed operation that some had not all
// parts of.
func (m *Member) passOver() {
	last := m.agreed + agreedSpan - 1
	for m.seq < last {
		m.seq++
		if o := m.ops.get(m.seq); o != nil { // of who had come farther
			o.left = true
			o.err = &Failure{Err: ErrAborted}
			o.retire()
		}
	}
	m.agreed = 0
	m.ahead.Skip(m.seq)
	m.ahead.tellDue(m)
}

// outliving is a context that outlives another for a while: in which to learn what was
// decided.
type outliving struct {
	of     <-chan struct{}
	ctx    context.Context
	forget func()
}

// patient returns such a context.
func (m *Member) patient(ctx context.Context) context.Context {
	done, p := ctx.Done(), &m.patience
	if done == nil {
		return ctx
	}
	if p.of == done && ctx.Err() == nil {
		return p.ctx
	}
	if p.forget != nil {
		p.forget()
	}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { // at once, if it has ended: there is always some time from now on
		time.AfterFunc(m.p.cfg.Silence, func() { cancel(context.Cause(ctx)) })
	})
	*p = outliving{done, inner, func() {
		stop()
		cancel(context.Canceled)
	}}
	return inner
}
