package node

import (
	"cmp"
	"slices"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/inquiry"
)

// operation is a collective operation of a task, from the first that is heard of
// it to its end.
type operation struct {
	entry
	seq     uint64
	plan    Plan
	typ     string
	part    string // the name of the operation that it is a part of
	machine machine
	value   []byte
	room    []byte   // where the result may be received
	rooms   [][]byte // where each of the resulting blocks may be
	// The rank of whom the operation was first heard; −1: of this task itself.
	informant int

	hasValue bool
	pooled   bool // the value is in memory of the process's buffers
	copies   bool // the task copies the result before it calls anything else
	shared   bool
	finished bool // the machine is done
	left     bool // by the task

	corrections int           // sent
	pausing     protocol.Time // before it sends another
	timed       bool          // a timer refers to it
	inquires    bool          // or will, unless the value comes
	spare       machine       // of an earlier operation in this memory
	sparePlan   Plan
	spareSize   int
	spareRank   int

	sched *stepper // the machine, if it is by schedule
	works bool     // to combine values is the user's
	work  int      // the step in which it is to; 0: in none, the first of a program combines nothing

	backup  Backup
	unsaved time.Duration // that it has combined since the last backup

	borrowed [][]byte // memory for what it receives
	bundles  [][]byte // what was put together to be sent
	bundle   bundle   // the last that was
	original []byte   // what was last copied for the log
	copied   []byte   // the copy
	copiedAt int32    // in that step of the schedule
	lends    bool     // a task of this program was given memory, not a copy: it may read it for long

	arrived []arrival // messages in the order they came, while one of them is not complete
	asking  *inquiry.Search
	early   []arrival // messages for later steps

	promises inquiry.Promises[*incoming]
	filling  []filling
}

type arrival struct {
	in   *incoming
	from int
}

// newOperation begins an operation, in memory used before if there is some.
func (m *Member) newOperation(seq uint64, plan Plan) *operation {
	p := m.p
	o := p.groups.spareOp(plan)
	o.m, o.seq, o.plan, o.informant = m, seq, plan, -1
	m.ops.put(o)
	return o
}

// sparesMax is among how many a spare machine of the same plan is looked for: programs repeat a few operations in turns.
const sparesMax = 8

// spareOp returns memory of an operation used before, with a machine of that plan if there is one. While there are few it does
// not take one whose machine serves another plan.
func (g *groups) spareOp(plan Plan) *operation {
	recent := g.freeOps[max(0, len(g.freeOps)-sparesMax):]
	i, last := slices.IndexFunc(recent, func(o *operation) bool { return o.sparePlan == plan.shape() }), len(recent)-1
	switch {
	case i < 0 && len(recent) < sparesMax:
		return &operation{}
	case i < 0:
		i = last
	}
	o := recent[i]
	recent[i], recent[last] = recent[last], nil
	g.freeOps = g.freeOps[:len(g.freeOps)-1]
	return o
}

// freeOpsMax is how many operations' memory is kept: so many may be under way.
const freeOpsMax = aheadMax

// recycle gives the operation's memory to the next one, if nothing can refer to
// it any more.
func (o *operation) recycle() {
	p := o.m.p
	if o.timed || len(o.arrived) > 0 || !o.delivered || !o.finished || o.kept() || len(p.groups.freeOps) >= freeOpsMax {
		return
	}
	o.giveBack()
	if o.sched != nil {
		o.sched.store.Forget()
	}
	*o = operation{spare: o.machine, sparePlan: o.plan.shape(), spareSize: o.m.Size(), spareRank: o.m.rank, arrived: o.arrived[:0], borrowed: o.borrowed, bundles: o.bundles, filling: o.filling[:0]}
	p.groups.freeOps = append(p.groups.freeOps, o)
}

// shape is the plan without what does not matter to its machines.
func (p Plan) shape() Plan {
	if p.is(scheduled) && !p.corrected() {
		p.fixArg = 0
	}
	return p
}

// factory returns the maker of a plan's machines.
func (m *Member) factory(plan Plan) (factory, error) {
	plan = plan.shape()
	if plan == m.lastPlan && m.lastMake != nil {
		return m.lastMake, nil
	}
	f := m.factories[plan]
	if f == nil {
		var err error
		if f, err = machines(plan, m.Size(), m.hosts, m.p.hub() != nil || m.p.cfg.Network == collective.InMemory); err != nil {
			return nil, err
		}
		m.factories[plan] = f
	}
	m.lastPlan, m.lastMake = plan, f
	return f, nil
}

// collective takes a message of an operation, or its beginning.
func (m *Member) collective(from int, in *incoming) {
	if in.source.rank == m.p.roster.Owner(int(in.from)) { // how far another attempt has come says nothing of this one
		m.ahead.hear(m, from, in.seq, int(min(in.size, eagerMax)), !in.plan.unasked() && !m.p.reran(int(in.from)))
	}
	o := m.ops.get(in.seq)
	if o == nil {
		if in.seq <= m.seq { // over, for this task
			m.comparePast(m.caller(from, in.plan), in)
			m.repeated(from, in)
			return
		}
		if make, err := m.factory(in.plan); err != nil || make == nil {
			m.p.cfg.Logger.Error("an operation that cannot be", "from", m.taskOf(from), "error", err)
			in.drop()
			return
		}
		o = m.newOperation(in.seq, in.plan)
		o.sign, o.informant = in.sign, m.caller(from, in.plan)
	}
	if !o.plan.same(in.plan) || o.sign != in.sign {
		in.drop()
		if o.err == nil {
			o.misused(m.mismatch(m.caller(from, in.plan), in, o))
		}
		return
	}
	if !o.plan.open() || in.plan.open() {
		o.take(from, in)
		return
	}
	o.plan = in.plan
	o.start(nil)
	seq := in.seq
	o.take(from, in)
	if m.ops.get(seq) == o {
		o.needs()
	}
}

// take takes a message of the operation, or its beginning.
func (o *operation) take(from int, in *incoming) {
	m := o.m
	bare := in.kind&withheld != 0
	if in.kind &^= withheld; bare && !o.hasValue && o.err == nil {
		o.promised(from, in)
		return
	}
	if o.plan.is(scheduled) {
		if bare {
			return
		}
		if o.sched == nil {
			o.start(nil)
		}
		o.piece(from, in)
		if o.sched != nil {
			o.step()
		}
		return
	}
	switch {
	case bare:
	case o.hasValue || o.err != nil:
		in = m.surplus(from, in)
	case o.entered:
		in.room = o.roomFor(in)
		in.want()
	case !in.Complete():
		in = in.stay()
		in.wantSoon()
	}
	if in.Complete() && len(o.arrived) == 0 && o.machine != nil {
		o.receive(from, in)
		o.step()
		return
	}
	in = in.stay()
	o.arrived = append(o.arrived, arrival{in, from})
	if !in.Complete() {
		in.arrived = o.catchUp
	}
	o.start(nil)
}

// roomFor is memory for the rest of a broadcast's value; nil: there is none.
func (o *operation) roomFor(in *incoming) []byte {
	if in.Answered() || uint64(cap(o.room)) < in.size {
		return in.room
	}
	return o.room[:in.size]
}

// begins tells whether the operation begins with this task.
func (o *operation) begins() bool { return o.plan.unasked() && int(o.plan.root) == o.m.rank }

// start makes the machine, unless this task must come to the operation first and
// has not, or its root has not said how it goes. The call is nil unless the task
// comes to it now.
func (o *operation) start(c *Call) {
	if o.plan.open() || o.plan.op == opSave || o.err != nil {
		return
	}
	if o.machine == nil {
		if !o.entered && (o.begins() || o.plan.is(scheduled) && !o.plan.unasked()) {
			return
		}
		if o.spare != nil && o.sparePlan == o.plan.shape() && o.spareSize == o.m.Size() && o.spareRank == o.m.rank {
			o.machine = o.spare
			o.machine.reset(protocol.Rank(o.m.rank))
		} else {
			make, _ := o.m.factory(o.plan)
			o.machine = make(protocol.Rank(o.m.rank))
		}
		o.spare = nil
		o.equip(c)
		o.step() // every process gets one Next before anything arrives
	}
	if o.sched != nil {
		o.resume(c)
		return
	}
	if o.entered {
		o.machine.notify(o.now(), protocol.Notice{Kind: protocol.Begin})
		for _, a := range o.arrived {
			if !o.hasValue {
				a.in.room = o.roomFor(a.in)
				a.in.want()
			}
		}
		o.step()
	}
	o.catchUp()
}

// catchUp hands over what has come, in order.
func (o *operation) catchUp() {
	if o.machine == nil {
		return
	}
	n := 0
	for n < len(o.arrived) && o.arrived[n].in.Complete() {
		a := o.arrived[n]
		n++
		o.receive(a.from, a.in)
		o.m.p.reuse(a.in)
	}
	o.arrived = slices.Delete(o.arrived, 0, n)
	o.step()
}

// receive hands a message to the machine.
func (o *operation) receive(from int, in *incoming) {
	in.taken()
	switch {
	case o.hasValue || in.value == nil && in.size > 0 || !valueKind(o.plan, in.kind):
		in.discard()
	default:
		if (in.brief || in.pooled) && in.size > inlineMax && uint64(cap(o.room)) >= in.size {
			in.moveTo(o.room[:in.size])
		}
		o.m.took(from, in)
		in.settle()
		o.value, o.hasValue, o.shared, o.pooled = in.value, true, in.shared, in.pooled
		for _, a := range o.arrived {
			if a.in != in {
				a.in.drop()
			}
		}
	}
	if o.finished || o.err != nil {
		return
	}
	o.counted()
	o.machine.receive(o.now(), protocol.Rank(from), word{extra: in.extra, round: in.round, kind: in.kind})
	if o.hasValue {
		for _, q := range o.promises.Came() {
			o.counted()
			o.machine.receive(o.now(), protocol.Rank(q.From), word{extra: q.Message.extra, round: q.Message.round, kind: q.Message.kind})
		}
		o.m.answerPending()
	}
}

// valueKind tells whether messages of a machine's kind carry the value.
func valueKind(plan Plan, kind uint8) bool {
	return plan.op != opBarrier && kind != ackKind
}

// leave takes note that the task has what it wanted, or has given up.
func (o *operation) leave() {
	o.left = true
	if o.err == nil && !o.delivered && o.works { // nobody will combine values
		o.m.abandon(cmp.Or(o.part, opName(o.plan.op)))
	}
	if o.err != nil {
		o.finished = true
	}
	if !o.delivered {
		o.m.tellLoose()
	}
	m, failed := o.m, o.err != nil
	m.ahead.Completed()
	m.ahead.tellDue(m)
	o.retire()
	if failed { // who asked for the value does not get it here
		m.answerPending()
	}
}

// retire forgets an operation that nobody needs.
func (o *operation) retire() {
	if o.left && (o.finished || o.err != nil) && o.m.ops.get(o.seq) == o {
		o.declineRest()
		if o.err == nil {
			o.m.past[o.seq%pastMax] = pastOp{o.seq, o.sign, o.plan}
		}
		o.m.ops.remove(o)
		o.m.remember(o)
		o.recycle()
	}
}

// declineRest does without what has begun to come and is not needed: another attempt
// of who sends it was faster.
func (o *operation) declineRest() {
	for _, list := range [][]arrival{o.arrived, o.early} {
		for _, a := range list {
			a.in.drop()
		}
	}
	clear(o.arrived)
	o.arrived, o.early = o.arrived[:0], nil
}

// fail ends an operation with an error.
func (o *operation) fail(f *Failure) {
	if o.err != nil || o.delivered {
		return
	}
	f.Op = opName(o.plan.op)
	o.err = f
	o.m.p.engine.Complete(o.w)
}

// fail ends those of the operations under way of which why says so.
func (m *Member) fail(why func(*operation) *Failure) {
	for o := range m.ops.all() {
		if o.waits() {
			if f := why(o); f != nil {
				o.fail(f)
			}
		}
	}
	m.ahead.wake(m)
	m.failStreams(func(*inStream) *Failure { return why(nil) })
	m.failPacts()
}
