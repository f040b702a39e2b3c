package node

import (
	"fmt"
	"slices"
)

// Misuse: tasks call different operations, or the same one with different types.
// Whoever sees it tells all tasks of the group, whose operations all fail from
// then on: never a hang.

// described is an operation in words.
func described(plan Plan, typ string) string {
	s := plan.String()
	if typ != "" {
		s += " of " + typ
	}
	return s
}

// apart is two calls in words, so far as they differ: the operations, or the types and
// operators, or the ways. typ is the name of the type of the first.
func (p *Process) apart(plan Plan, sign uint64, typ string, other Plan, otherSign uint64) (a, b string) {
	a, b = plan.brief(), other.brief()
	if typ != "" {
		typ = " of " + typ
	}
	switch {
	case a != b:
		return a + typ, b
	case sign != otherSign:
		if name := p.cfg.SignName(sign); name != "" {
			typ = " of " + name
		}
		if name := p.cfg.SignName(otherSign); name != "" {
			return a + typ, b + " of " + name
		}
		return a + typ, b + " of another type, or with another operator"
	case plan.is(scheduled) && other.is(scheduled):
		return a + typ, b + " of values of another length, or with other options"
	}
	return plan.String() + typ, other.String()
}

// caller is a rank that certainly calls an operation of which from sent a message:
// a broadcast may be passed on for a task that has not come to it.
func (m *Member) caller(from int, plan Plan) int {
	if !plan.unasked() || int(plan.root) >= m.Size() {
		return from
	}
	return int(plan.root)
}

// mismatch is what a message is that does not fit an operation.
func (m *Member) mismatch(from int, in *incoming, o *operation) *Failure {
	ours, theirs := m.p.apart(o.plan, o.sign, o.typ, in.plan, in.sign)
	caller := m.task
	if !o.entered {
		caller = m.taskOf(o.informant)
	}
	return m.misuse(in, opName(o.plan.op), []int{caller, m.taskOf(from)},
		"task %d calls %s as operation %d of its group, task %d calls %s", caller, ours, in.seq, m.taskOf(from), theirs)
}

// misuse makes all that the group calls fail, for all: these tasks misuse it, or have diverged. in is what another
// task said; nil: nothing.
func (m *Member) misuse(in *incoming, op string, tasks []int, format string, args ...any) *Failure {
	f := m.blame(&Failure{Op: op, Tasks: tasks, Err: ErrMismatch, Text: fmt.Sprintf(format, args...)}, in)
	m.announce(f)
	return f
}

// pastMax is how many operations are remembered after their end, to compare what
// others still send of them: a root, for one, ends at once.
const pastMax = 16

// pastOp is an operation that has ended.
type pastOp struct {
	seq, sign uint64
	plan      Plan
}

// comparePast looks whether a message fits the operation of its number, which has
// ended here.
func (m *Member) comparePast(from int, in *incoming) {
	p := &m.past[in.seq%pastMax]
	if p.seq != in.seq {
		m.compareCall(from, in, in.plan)
		return
	}
	if p.plan.same(in.plan) && p.sign == in.sign {
		return
	}
	m.late = m.mismatch(from, in, &operation{entry: entry{m: m, sign: p.sign, entered: true}, seq: p.seq, plan: p.plan})
}

// misused fails an operation that others call differently. Its task may have its
// result already, and call nothing more.
func (o *operation) misused(f *Failure) {
	if o.left {
		o.m.late = f
	}
	o.fail(f)
}

// announce tells all tasks of the group that it is misused.
func (m *Member) announce(f *Failure) {
	if m.broken != nil {
		return
	}
	m.spoil(f)
	for r := range m.Size() {
		if r != m.rank {
			m.tellBroken(r)
		}
	}
}

// tellBroken tells a task that the group is misused, and how.
func (m *Member) tellBroken(rank int) {
	f := m.broken
	e := m.to(rank)
	e.plan, e.seq = Plan{op: opMismatch}, uint64(len(f.Tasks))
	e.extra = pair(f.Tasks)
	e.kind = uint8(max(slices.Index(brokenBy, f.Err), 0))
	m.peer(rank).send(e, []byte(f.Text), nil)
}

// brokenBy is why a group can be used no more, by the kind of the message that says so.
var brokenBy = []error{ErrMismatch, ErrDiverged, ErrLost, ErrDeadlock}

// pair packs up to two tasks.
func pair(tasks []int) (word uint64) {
	for i, t := range tasks[:min(len(tasks), 2)] {
		word |= uint64(uint32(t)) << (32 * i)
	}
	return word
}

func unpair(word uint64, n int) (tasks []int) {
	for i := range min(n, 2) {
		tasks = append(tasks, int(uint32(word>>(32*i))))
	}
	return tasks
}

// mismatched learns that the group is misused.
func (m *Member) mismatched(in *incoming) {
	if m.broken == nil {
		f := &Failure{Tasks: unpair(in.extra, int(min(in.seq, 2))), Err: ErrMismatch, Text: string(in.value)}
		if int(in.kind) < len(brokenBy) {
			f.Err = brokenBy[in.kind]
		}
		m.spoil(f)
	}
}

// spoil makes all operations of the group fail.
func (m *Member) spoil(f *Failure) {
	m.broken = f
	m.fail(func(*operation) *Failure {
		c := *f
		return &c
	})
}
