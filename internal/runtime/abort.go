package runtime

import (
	"context"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Operations that all tasks complete or none (rule 6 of docs/design.md). To enter one
// is the vote for it: who has its result knows that all have entered. A task whose
// context has ended before it entered may abort it instead, and then never enters
// it. That the context ended follows from no message, so, with replay, it must not be
// forgotten while anybody knows something that follows from it:
//
//  1. Who aborts tells all processes of its view, before it sends anything else. Who is
//     told, and did not know it, does the same. So whoever receives what follows from
//     it knows it.
//  2. When a view opens, every process tells those who are new in it all that it knows to be
//     aborted, before it sends them anything that may follow from it; one that is new itself,
//     which may have been told before it had a view, tells all. Then it tells those who
//     run tasks again that this is all, as of that view.
//  3. A task that is run again neither enters such an operation nor aborts it before
//     all of the present view have said so: a record of its earlier attempt that
//     anybody has is known to it then. It never aborts anything of its own.
//
// protocol/recovery has the same rule as a machine, and the mistakes that can be made.

// instance names an agreed operation: its group, and its number there.
type instance struct {
	scope
	seq uint64
}

// agreedSpan is how many numbers of operations an aborted one takes: as many as the
// longest has parts.
const agreedSpan = 4

// aborts is what a process knows of aborted operations.
type aborts struct {
	records map[instance]bool
	words   map[int]uint64 // by rank of process: the view as of which it has told all it knows
	waiting []*waiter
}

// abort takes note that an operation is aborted, and tells all who do not know it.
func (p *Process) abort(key instance) {
	a := &p.aborts
	if a.records[key] {
		return
	}
	if a.records == nil {
		a.records = map[instance]bool{}
	}
	a.records[key] = true
	for _, id := range p.views.sight.View.Members {
		if int(id.ID) != p.cfg.Rank {
			q := p.peerAt(int(id.ID))
			q.tellDrawn()
			q.tell(key.record())
		}
	}
	for _, m := range p.members {
		if m.scope == key.scope && m.agreed == key.seq {
			m.abortWaits()
		}
	}
	p.lookAborts()
}

func (i instance) record() envelope {
	return envelope{scope: i.scope, seq: i.seq, plan: Plan{op: opAbort}}
}

// abortWaits ends the task's wait in the aborted operation.
func (m *Member) abortWaits() {
	for o := range m.ops.all() {
		if o.waits() && o.seq >= m.agreed && o.seq < m.agreed+agreedSpan {
			o.fail(&Failure{Err: ErrAborted})
		}
	}
	for _, w := range m.ahead.waiting {
		m.p.complete(w)
	}
}

// lookAborts lets those look again who wait for what others know.
func (p *Process) lookAborts() {
	for _, w := range p.aborts.waiting {
		p.complete(w)
	}
	p.aborts.waiting = p.aborts.waiting[:0]
}

// tellAborts tells those who are new in a view what is known to be aborted or lost, all if this
// process is; and those who run tasks again that this is all, as of that view.
func (p *Process) tellAborts(v, before *membership.View) {
	if !p.replays() || p.dead || p.closed {
		return
	}
	again := map[protocol.Rank]bool{}
	for t, since := range p.since {
		again[protocol.Rank(p.owner[t])] = again[protocol.Rank(p.owner[t])] || since > 1
	}
	first := !before.Has(p.views.state.Self())
	for _, id := range v.Members {
		if int(id.ID) == p.cfg.Rank {
			continue
		}
		q := p.peerAt(int(id.ID))
		if first || !before.Has(id) {
			q.tellDrawn()
			for key := range p.aborts.records {
				q.tell(key.record())
			}
			q.tellLosses()
		}
		if again[id.ID] {
			p.passCopies(q)
			q.send(envelope{seq: v.Number, plan: Plan{op: opAborts}}, nil, nil) // behind them
		}
	}
	p.lookAborts()
}

// toldAborts learns that a process has told all that it knew as of a view.
func (p *Process) toldAborts(in *incoming) {
	a := &p.aborts
	if a.words == nil {
		a.words = map[int]uint64{}
	}
	a.words[in.source.rank] = max(a.words[in.source.rank], in.seq)
	p.lookAborts()
	if p.hears() {
		p.copyAgain()
		p.lookEpochs()
	}
}

// hears tells whether all of the present view have told what they know. Those who died
// since will be missing in the next one.
func (p *Process) hears() bool {
	v := p.views.sight.View
	for _, id := range v.Members {
		if int(id.ID) != p.cfg.Rank && p.aborts.words[int(id.ID)] < v.Number {
			return false
		}
	}
	return true
}

// vote has the task take part in the agreed operation that it comes to now, or abort
// it. The failure is ErrAborted if somebody has.
func (m *Member) vote(ctx, patient context.Context, name string) error {
	p := m.p
	p.lock()
	defer p.unlock()
	if err := m.usable(name); err != nil {
		return err
	}
	m.agreed = m.seq + 1
	key := instance{m.scope, m.agreed}
	for p.since[m.task] > 1 && !p.aborts.records[key] && !p.hears() {
		w := &waiter{}
		p.aborts.waiting = append(p.aborts.waiting, w)
		if err := p.wait(patient, w); err != nil {
			return &Failure{Op: name, Err: err}
		}
		if err := m.usable(name); err != nil {
			return err
		}
	}
	if ctx.Err() != nil && p.since[m.task] == 1 {
		p.abort(key)
	}
	if p.aborts.records[key] {
		return &Failure{Op: name, Err: ErrAborted}
	}
	return nil
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
	m.taken, m.agreed = m.seq, 0
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
