package runtime

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// What ends an operation without a result.
var (
	// ErrGone: a task that is needed has died, or has returned an error.
	ErrGone = errors.New("gone")
	// ErrLeft: a task that is needed has returned well, without taking part.
	ErrLeft = errors.New("returned")
	// ErrMisuse: tasks called different operations, or with different types.
	ErrMisuse = errors.New("misuse")
	// ErrUnreached: a corrected broadcast did not reach this task.
	ErrUnreached = errors.New("unreached")
	// ErrKilled: this process, a goroutine, was killed; its task must end.
	ErrKilled = errors.New("killed")
)

// Failure is why an operation failed. Err is one of the errors above, the end of
// a context, or what the job ended with.
type Failure struct {
	Op    string
	Tasks []int // whose fault it is
	Err   error
	Text  string // more words
}

func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString(f.Op)
	if f.Text != "" {
		b.WriteString(": " + f.Text)
	} else {
		if len(f.Tasks) > 0 {
			fmt.Fprintf(&b, ": tasks %v", f.Tasks)
		}
		b.WriteString(": " + f.Err.Error())
	}
	return b.String()
}

func (f *Failure) Unwrap() error { return f.Err }

// goneFailure is what a rank that takes part no more makes of an operation.
func (m *Member) goneFailure(op string, rank int) *Failure {
	task := m.taskOf(rank)
	g := m.p.gone[task]
	f := &Failure{Op: op, Tasks: []int{task}, Err: ErrGone}
	switch {
	case g.dead:
		f.Text = fmt.Sprintf("task %d is dead", task)
	case g.why != "":
		f.Text = fmt.Sprintf("task %d has failed", task)
	default:
		f.Err, f.Text = ErrLeft, fmt.Sprintf("task %d has returned without taking part", task)
	}
	if g.why != "" {
		f.Text += ": " + g.why
	}
	return f
}

// Died tells that a process is dead, certainly or as far as this one is
// concerned.
func (p *Process) Died(rank int, certain bool, how string) {
	p.lock()
	defer p.unlock()
	p.died(rank, certain, how)
}

// nameTime is how long a death that the kernel tells waits for the coordinator to
// say how it came about.
const nameTime = protocol.Time(5 * time.Millisecond)

// exited learns from the kernel that the peer's process is dead.
func (q *peer) exited() {
	p := q.p
	dead := func() { p.died(q.rank, true, "its process has exited") }
	if p.cfg.Host == nil {
		dead()
		return
	}
	p.poll.remove(q.pidfd) // it has said what it has to say
	go p.cfg.Host.Ask(q.rank)
	p.at(p.now()+nameTime, dead)
}

func (p *Process) died(rank int, certain bool, how string) {
	q := &p.peers[rank]
	if q.dead || p.closed {
		return
	}
	if q.conn != nil { // what it sent before its end counts
		for q.read() {
		}
	}
	q.dead = true
	q.forget()
	if !certain {
		p.cfg.Logger.Warn("process given up", "peer", rank, "why", how)
	}
	for t, r := range p.owner {
		if int(r) != rank || p.gone[t].dead {
			continue
		}
		// Dead even if it had returned: what it owes others will not come.
		p.gone[t].dead, p.gone[t].why = true, how
		p.goners++
	}
	for _, m := range p.members {
		m.lost()
	}
	p.settlesNow()
	p.roomAgain()
}

// PeerReturned tells that the tasks of a process have returned; failure says
// why, if they did not return well.
func (p *Process) PeerReturned(rank int, failure string) {
	p.lock()
	defer p.unlock()
	for t, r := range p.owner {
		if int(r) != rank || p.gone[t].dead {
			continue
		}
		p.gone[t].returned = true
		if p.gone[t].why == "" && p.alone(rank) { // several answer for themselves, when asked
			p.gone[t].why = failure
		}
		p.goners++
	}
	for _, m := range p.members {
		m.returned()
	}
	p.roomAgain()
}

// alone tells whether a process has but one task.
func (p *Process) alone(rank int) bool {
	n := 0
	for _, r := range p.owner {
		if int(r) == rank {
			n++
		}
	}
	return n == 1
}

// lost looks which operations of the group fail because of the dead.
func (m *Member) lost() {
	if !m.known {
		return
	}
	for r := range m.Size() {
		if m.goneRank(r).dead {
			m.ahead.gone(m, r)
		}
	}
	m.dropGone()
	for o := range m.ops.all() {
		if o.entered && !o.delivered && o.err == nil {
			o.needs()
		}
	}
	m.failStreams(func(s *inStream) *Failure {
		if m.goneRank(s.from).dead {
			return m.goneFailure("", s.from)
		}
		return nil
	})
	m.answerPending()
}

// needs fails the operation if it needs a task that is dead, and asks about
// those that have returned.
func (o *operation) needs() {
	if o.delivered || o.err != nil || o.m.p.goners == 0 {
		return
	}
	m := o.m
	switch {
	case o.plan.op == opBarrier:
		for r := range m.Size() {
			if m.goneRank(r).dead {
				o.fail(m.goneFailure("", r))
				return
			}
		}
	case o.plan.remembered():
		if !o.hasValue && !o.inquires {
			o.inquires, o.timed = true, true
			m.p.at(m.p.now()+askAfter, o.inquire)
		} else if o.asking != nil {
			o.inquire()
		}
	default:
		for _, r := range ancestors(o.plan, m.Size(), protocol.Rank(m.rank)) {
			if m.goneRank(int(r)).dead {
				o.fail(m.goneFailure("", int(r)))
				return
			}
		}
	}
	o.probeReturned()
}

// awaits lists the ranks whose messages the operation waits for.
func (o *operation) awaits() (ranks []protocol.Rank) {
	if a, ok := o.machine.(interface{ awaits() []protocol.Rank }); ok {
		ranks = a.awaits()
	}
	if ranks == nil && o.plan.op != opBarrier && int(o.plan.root) != o.m.rank {
		if up := ancestors(o.plan, o.m.Size(), protocol.Rank(o.m.rank)); len(up) > 0 {
			ranks = append(ranks, up[0])
		}
		ranks = append(ranks, protocol.Rank(o.plan.root))
	}
	return ranks
}

// probeReturned asks the tasks that the operation waits for and that have
// returned whether more is to come.
func (o *operation) probeReturned() {
	if o.machine == nil {
		return
	}
	for _, r := range o.awaits() {
		if o.m.goneRank(int(r)).returned {
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
		if g := m.goneRank(key.rank); g.dead || g.returned {
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
	for r := range m.Size() {
		if m.goneRank(r).returned {
			m.ahead.gone(m, r)
		}
	}
	m.dropGone()
	for o := range m.ops.all() {
		if o.entered && !o.delivered && o.err == nil {
			o.probeReturned()
		}
	}
	for _, s := range m.in {
		if s.wanted && s.head() == nil && m.goneRank(s.from).returned {
			m.probe(s.from, envelope{plan: Plan{op: opSend}})
		}
	}
}

// probed answers a task that waits for this one: if both are not in the same
// operation, that is misuse; if this one has returned, it says so.
func (m *Member) probed(from int, in *incoming) {
	returned := m.p.gone[m.task].returned
	plan := in.plan
	plan.op = in.kind
	if plan.op == opSend {
		if returned {
			m.p.tellGone(in)
		}
		return
	}
	o := m.ops.get(in.seq)
	switch {
	case o != nil && o.err == nil && (o.plan != plan || o.sign != in.sign):
		in.plan = plan
		o.fail(m.mismatchIn(from, in, o))
	case in.seq > m.seq && returned:
		m.p.tellGone(in)
	case o == nil && in.seq > m.seq: // compare when the task comes to it
		if _, err := m.factory(plan); err == nil {
			o = m.newOperation(in.seq, plan)
			o.sign, o.informant = in.sign, from
		}
	}
}

// tellGone answers a probe: the task has returned, and how. The answer goes
// behind what was sent before.
func (p *Process) tellGone(in *incoming) {
	in.source.send(envelope{
		group: in.group, from: in.to, to: in.from, seq: in.seq, kind: in.kind, plan: Plan{op: opGone},
	}, []byte(p.gone[in.to].why), nil)
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
	if g := &m.p.gone[m.taskOf(from)]; !g.dead {
		g.returned, g.why = true, string(in.value)
		m.p.goners++
	}
	if in.kind != opSend {
		m.goneIn(from, in.seq, told)
		return
	}
	m.failStreams(func(s *inStream) *Failure {
		if s.from == from && s.head() == nil {
			return m.goneFailure("", from)
		}
		return nil
	})
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
	if o == nil || !o.entered || o.delivered || o.err != nil || len(o.arrived) > 0 {
		return
	}
	f := m.goneFailure("", rank)
	o.fail(f)
	switch {
	case told || o.plan.op != opBarrier && int(o.plan.root) != rank:
	case f.Err == ErrLeft:
		m.announce(&Failure{Op: f.Op, Tasks: f.Tasks, Err: ErrMisuse, Text: f.Text})
	default:
		for r := range m.Size() {
			if r != m.rank && r != rank {
				e := m.to(r)
				e.seq, e.kind, e.plan, e.extra = seq, o.plan.op, Plan{op: opGone}, uint64(f.Tasks[0])+1
				m.peer(r).send(e, []byte(m.goneRank(rank).why), nil)
			}
		}
	}
}

// Returned tells that a task of this process has returned: it takes part in
// nothing more. failure says why, if it did not return well.
func (p *Process) Returned(task int, failure string) {
	p.lock()
	defer p.unlock()
	p.gone[task].returned, p.gone[task].why = true, failure
	p.goners++
	for _, m := range p.members {
		m.returned()
	}
}
