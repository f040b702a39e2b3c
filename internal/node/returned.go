package node

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol/membership"
)

// Tasks that have returned take part in nothing more. What they sent may still be
// on its way, so who waits for one asks it, behind all that: a probe says what the
// asker waits in. The answer says that the task has returned, and how; or, if it
// is in another operation, that is misuse and all are told. Long waits ask too
// (patrol.go), whoever they wait for.

// PeersReturned is told that the tasks of processes have returned; failure says
// why, if they did not return well.
// They are those that a process began with: others answer for themselves, when asked. A later
// life began with none. In a large job many return at once, and all of them are looked
// at together.
func (p *Process) PeersReturned(ranks []int, incarnation uint64, failure string) {
	p.engine.Lock()
	defer p.engine.Unlock()
	if incarnation > 1 {
		return
	}
	p.roster.Left(ranks, failure)
	p.lookReturned()
}

// lookReturned looks what tasks that have returned mean to who waits.
func (p *Process) lookReturned() {
	for m := range p.groups.all() {
		m.returned()
	}
	p.roomAgain()
}

// hasReturned tells whether a task of this process has: of others' it does not speak.
func (p *Process) hasReturned(task int) bool {
	return p.roster.Mine(task) && p.roster.Status(task).Returned
}

// probeReturned asks the tasks that the operation waits for and that have
// returned whether more is to come.
func (o *operation) probeReturned() {
	for _, r := range o.awaits() {
		if o.m.goneRank(int(r)).Returned {
			o.probe(int(r))
		}
	}
}

// probe tells a task what this one waits in: it compares, and answers if it has
// returned.
func (o *operation) probe(rank int) {
	o.m.probe(rank, envelope{seq: o.seq, sign: o.sign, plan: o.plan})
}

func (m *Member) probe(rank int, about envelope) {
	e := m.to(rank)
	e.seq, e.sign = about.seq, about.sign
	e.plan = about.plan
	e.plan.op, e.kind = opProbe, about.plan.op
	m.peer(rank).send(e, nil, nil)
}

// dropGone forgets what waits for tasks that will not receive it.
func (m *Member) dropGone() {
	for key, s := range m.out {
		if g := m.goneRank(key.rank); g.Dead || g.Returned {
			s.drop(m.p)
		}
	}
}

// returned looks what tasks that have returned mean for the group. What they sent
// may still be on its way, so they are asked behind it.
func (m *Member) returned() {
	if !m.known {
		return
	}
	m.ahead.lookGone(m)
	m.dropGone()
	for o := range m.ops.all() {
		if o.waits() {
			o.probeReturned()
		}
	}
	for _, s := range m.in {
		if s.wanted && s.head() == nil && m.goneRank(s.from).Returned {
			m.probe(s.from, envelope{plan: Plan{op: opSend}})
		}
	}
}

// probed answers a task that waits for this one: if both are not in the same
// operation, that is misuse; if this one has returned, it says so.
func (m *Member) probed(from int, in *incoming) {
	if m.broken != nil { // what the task has returned with may be no more than that
		m.tellBroken(from)
		return
	}
	returned := m.p.hasReturned(m.task)
	plan := in.plan
	plan.op = in.kind
	if plan.op == opSend {
		if returned && !m.repeats(from, in) {
			m.p.tellGone(in)
		}
		return
	}
	if plan.op == opAgree {
		m.probedPact(from, in)
		return
	}
	o := m.ops.get(in.seq)
	switch {
	case o != nil && o.err == nil && (!o.plan.same(plan) || o.sign != in.sign):
		in.plan = plan
		o.misused(m.mismatch(from, in, o))
	case in.seq > m.seq && returned && plan.unasked() && int(plan.root) != m.rank: // it is passed on all the same
	case in.seq > m.seq && returned:
		m.p.tellGone(in)
	case o == nil && in.seq > m.seq: // compare when the task comes to it
		if _, err := m.factory(plan); err == nil {
			o = m.newOperation(in.seq, plan)
			o.sign, o.informant = in.sign, from
		}
	case o == nil:
		m.compareCall(from, in, plan)
	}
}

// tellGone answers a probe: the task has returned, and how. The answer goes
// behind what was sent before.
func (p *Process) tellGone(in *incoming) {
	in.source.send(envelope{
		scope: in.scope, from: in.to, to: in.from, seq: in.seq, kind: in.kind, plan: Plan{op: opGone},
	}, []byte(p.roster.Status(int(in.to)).Why), nil)
}

// goneFrom learns that a task has returned and that all it sent has come: the one
// who says so, or the one that extra names.
func (m *Member) goneFrom(from int, in *incoming) {
	told := in.extra != 0
	if told {
		var ok bool
		if from, ok = m.rankOf(uint32(in.extra - 1)); !ok || from >= m.Size() || from == m.rank {
			return
		}
	}
	m.p.roster.Returned(m.taskOf(from), string(in.value))
	if in.kind == opAgree {
		m.goneInPact(from, in.seq)
		return
	}
	if in.kind != opSend {
		m.goneIn(from, in.seq, told)
		return
	}
	m.failStreams(func(s *inStream) *Failure {
		if s.from == from && s.head() == nil {
			f := m.goneFailure("", from)
			if f.Err == ErrLeft {
				f.Text = m.leftUnsent(s)
			}
			return f
		}
		return nil
	})
}

// leftUnsent says what a stream waits for in vain, and what has come instead.
func (m *Member) leftUnsent(waits *inStream) string {
	var tag uint64
	var others []uint64
	for key, s := range m.in {
		switch {
		case s == waits:
			tag = key.tag
		case s.from == waits.from && s.head() != nil:
			others = append(others, key.tag)
		}
	}
	task := m.taskOf(waits.from)
	text := fmt.Sprintf("task %d has returned and sent nothing more with tag %d", task, tag)
	if len(others) > 0 {
		slices.Sort(others)
		text += fmt.Sprintf("; what it sent with other tags has come and waits for Recv: tags %d", others)
	}
	return text
}

// goneIn fails an operation that a task has returned without. If nobody can
// complete it then, all are told, since not all wait for that task themselves.
func (m *Member) goneIn(rank int, seq uint64, told bool) {
	o := m.ops.get(seq)
	if told && seq > m.seq { // for when the task comes to it
		if m.doomed == nil {
			m.doomed = map[uint64]int{}
		}
		m.doomed[seq] = rank
		return
	}
	if o == nil || !o.waits() || len(o.arrived) > 0 {
		return
	}
	f := m.goneFailure("", rank)
	o.fail(f)
	switch {
	case told || o.plan.unasked() && o.plan.remembered() && int(o.plan.root) != rank:
	case f.Err == ErrLeft:
		m.announce(&Failure{Op: f.Op, Tasks: f.Tasks, Err: ErrMismatch, Text: f.Text})
	default:
		for r := range m.Size() {
			if r != m.rank && r != rank {
				e := m.to(r)
				e.seq, e.kind, e.plan, e.extra = seq, o.plan.op, Plan{op: opGone}, uint64(f.Tasks[0])+1
				m.peer(r).send(e, []byte(m.goneRank(rank).Why), nil)
			}
		}
	}
}

// Returned tells that a task of this process has returned: it takes part in
// nothing more. failure says why, if it did not return well. What returns after the process
// has ended has returned nowhere: the task goes on elsewhere, or the job is over.
func (p *Process) Returned(task int, failure string) {
	p.engine.Lock()
	defer p.engine.Unlock()
	if p.ended != nil {
		return
	}
	p.roster.Returned(task, failure)
	p.lookReturned()
	p.tellReturned(task, failure)
}

// tellReturned tells everybody that a task has returned that was run again here. Those
// that a process began with are told of by the coordinator.
func (p *Process) tellReturned(task int, failure string) {
	if !p.replays() || !p.roster.Again(task) || p.dead || p.engine.Stopped() {
		return
	}
	for _, id := range p.view().Members {
		if int(id.ID) != p.cfg.Rank {
			p.peerAt(int(id.ID)).send(envelope{plan: Plan{op: opReturned}, extra: uint64(task)}, []byte(failure), nil)
		}
	}
}

// toldReturned learns that a task has returned that was run again.
func (p *Process) toldReturned(in *incoming) {
	if p.roster.Has(in.extra) && p.roster.Told(int(in.extra), in.source.rank, string(in.value)) {
		p.lookReturned()
	}
}

// Rest tells in which view the process is, and whether all its tasks have returned.
func (p *Process) Rest() (view *membership.View, all bool) {
	p.engine.Lock()
	defer p.engine.Unlock()
	return p.view(), p.roster.Rests()
}
