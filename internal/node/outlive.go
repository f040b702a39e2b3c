package node

import (
	"bytes"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Corrected reductions outlive deaths: package collective says how. The machine is told
// who is dead, after all that they sent has come. What it cannot do without the root, or
// with too many dead, ends by inquiry, as with corrected broadcasts: a result that
// somebody has comes to all who live, and if nobody has it, it is ErrUnreached.
//
// Where the tasks of the dead are run again nobody is told anything: all inputs come, and
// every message has the bits that its name stands for. A task that is lost there fails the
// operation as it fails others.

// corrected tells whether a plan is that of a reduction that outlives deaths.
func (p Plan) corrected() bool {
	a := collective.Algorithm(p.tree)
	return p.is(scheduled) && (a == collective.Corrected || a == collective.CorrectedFlat)
}

// correctedPlan makes a plan that of a corrected reduction. All tasks know the size, or
// none does.
func (p Plan) correctedPlan(tasks int, c Choice) Plan {
	a := collective.CorrectedFlat
	if tasks > flatTasks || c.Bytes >= flatBytes {
		a = collective.Corrected
	}
	p.flags |= scheduled
	p.tree, p.correction, p.fixArg = uint8(a), correctionProof, uint16(c.Failures)
	return p
}

// Up to so many tasks, and below so many bytes, the root takes from everybody: as with
// plain reductions (collective.Default).
const (
	flatTasks = 64
	flatBytes = 128 << 10
)

// outlive tells the machine who is dead, and looks for the result if it may not come.
func (o *operation) outlive() {
	m := o.m
	for r := range m.Size() {
		if m.goneRank(r).Dead {
			o.machine.notify(0, protocol.Notice{Kind: protocol.Death, Rank: protocol.Rank(r)})
		}
	}
	o.step()
	switch root := int(o.plan.root); {
	case !o.waits():
	case o.plan.remembered():
		o.inquireSoon()
	case m.goneRank(root).Dead:
		f := m.goneFailure("", root)
		f.Err = ErrUnreached
		o.fail(f)
	}
}

// deliver takes note that the machine has come to its result, or to that there is none.
func (o *operation) deliver(step int32) {
	m := o.m
	o.counted()
	if o.sched != nil && o.sched.program.Steps[step].Kind == collective.UnreachedStep {
		o.fail(m.tooMany(int(o.plan.fixArg)))
		return
	}
	o.delivered = true
	m.p.engine.Complete(o.w)
	if o.sched != nil && o.plan.remembered() {
		o.value, o.shared = o.sched.outcome()
		o.hasValue = true
		m.answerPending()
	}
}

// outcome is the result of a corrected reduction.
func (s *stepper) outcome() (value []byte, shared bool) {
	out := s.program.Out
	if out == nil {
		return nil, false
	}
	blocks, lent := s.store.Blocks(nil, nil)
	return blocks[0], lent[0]
}

// tooMany is what a reduction comes to that not so many deaths would have kept from its
// result.
func (m *Member) tooMany(failures int) *Failure {
	f := &Failure{Err: ErrUnreached}
	for r := range m.Size() {
		if m.goneRank(r).Dead {
			f.Tasks = append(f.Tasks, m.taskOf(r))
		}
	}
	f.Text = fmt.Sprintf("tasks %v are dead; allowed: %d", f.Tasks, failures)
	return f
}

// kept tells whether all of a finished operation is kept for questions. Of a corrected
// reduction with a small result only that is.
func (o *operation) kept() bool {
	return o.plan.remembered() && (o.sched == nil || len(o.value) > inlineMax)
}

// recalled is what is kept of it.
func (o *operation) recalled() *operation {
	if o.kept() {
		return o
	}
	return &operation{entry: entry{m: o.m, sign: o.sign, delivered: true}, seq: o.seq, plan: o.plan, value: bytes.Clone(o.value), hasValue: true}
}
