package node

import (
	"math/bits"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/inquiry"
)

// Questions for the value of a corrected broadcast that does not come: package inquiry says whom to
// ask, what to answer, and when nobody will ever have it.

const ackKind = uint8(broadcast.Ack)

// treeGossip is the first index of treeNames that is no tree.
const treeGossip = 4

// askAfter is how long correction has before a task asks, once it knows of a
// death: mostly it needs less, and nobody is asked.
const askAfter = protocol.Time(10 * time.Millisecond)

// inquireSoon asks unless the value comes in time.
func (o *operation) inquireSoon() {
	p := o.m.p
	if !o.hasValue && !o.inquires {
		o.inquires, o.timed = true, true
		p.engine.At(p.engine.Now()+askAfter, o.inquire)
	} else if o.asking != nil {
		o.inquire()
	}
}

// inquire asks whoever may have the value, if there is reason to.
func (o *operation) inquire() {
	m := o.m
	if o.hasValue || !o.waits() {
		return
	}
	if o.asking == nil {
		o.asking = inquiry.New(m.rank, m.Size(), int(o.plan.root))
	}
	for r := range m.Size() {
		if m.goneRank(r).Dead {
			o.asking.Died(r)
		}
	}
	for to, about, ok := o.asking.Next(); ok; to, about, ok = o.asking.Next() {
		o.ask(to, about)
	}
	o.concluded()
}

// withheld marks a message of correction without its value: who has none asks for
// it.
const withheld = 0x80

// promised takes a message of correction whose value was withheld.
func (o *operation) promised(from int, in *incoming) {
	p := o.m.p
	o.promises.All = append(o.promises.All, inquiry.Promise[*incoming]{From: from, Message: in.stay()})
	d := lingerTime
	if p.roster.Deaths() {
		d = correctHurried
	}
	o.timed = true
	p.engine.At(p.engine.Now()+d, o.askPromised)
	if !o.plan.is(scheduled) {
		o.start(nil)
	}
}

// askPromised asks those who have promised the value.
func (o *operation) askPromised() {
	if o.lacks() {
		for to := range o.promises.Ask {
			o.ask(to, inquiry.Nobody)
		}
	}
}

// lacks reports whether the value is not here, and somebody needs it: of a broadcast the others, even if the task has not come to it.
func (o *operation) lacks() bool {
	return !o.hasValue && o.err == nil && (o.waits() || !o.plan.is(scheduled))
}

// ask asks a rank for the value, about one of the dead.
func (o *operation) ask(r, about int) {
	o.m.ahead.owe(o.m, r)
	e := o.m.to(r)
	e.seq, e.sign, e.plan, e.extra = o.seq, o.sign, o.plan, uint64(about+1)
	e.kind, e.plan.op = o.plan.op, opAsk
	o.m.peer(r).send(e, nil, nil)
}

// concluded ends the wait if nobody has the value. If the root has it no more, that of a broadcast may
// still come, for a while.
func (o *operation) concluded() {
	if o.hasValue || o.err != nil {
		return
	}
	switch o.asking.Verdict() {
	case inquiry.Unreached:
		f := o.m.goneFailure("", int(o.plan.root))
		f.Err = ErrUnreached
		o.fail(f)
	case inquiry.Forgotten:
		if o.plan.corrected() {
			o.giveUp()
		}
	}
}

// giveUp ends the wait for a value that the root, though alive, has no more: this
// task was too far behind the others when its neighbours died.
func (o *operation) giveUp() {
	if o.asking != nil && o.asking.Verdict() == inquiry.Forgotten && !o.hasValue {
		o.fail(&Failure{Tasks: []int{o.m.taskOf(int(o.plan.root))}, Err: ErrUnreached, Text: "too far behind: not even the root has the value any more"})
	}
}

// inquiry handles a question or an answer.
func (m *Member) inquiry(from int, in *incoming) {
	about := int(min(in.extra, 1<<31)) - 1
	if about >= m.Size() { // no honest question
		return
	}
	o := m.ops.get(in.seq)
	if in.plan.op == opHaveNot {
		if o != nil && o.asking != nil {
			o.asking.Lacks(from, about)
			o.concluded()
		}
		return
	}
	if int64(in.plan.root) >= int64(m.Size()) {
		return
	}
	of := about
	if of == inquiry.Nobody {
		of = int(in.plan.root)
	}
	kept := m.recent[in.seq]
	if o != nil && o.hasValue {
		kept = o
	}
	never := m.p.hasReturned(m.task) || in.seq <= m.seq && o == nil
	switch (inquiry.Asked{About: about, Has: kept != nil, Dead: m.goneRank(of).Dead, Never: never}).Reply() {
	case inquiry.Give:
		m.give(from, kept)
	case inquiry.Lack:
		e := m.to(from)
		e.seq, e.extra, e.plan = in.seq, in.extra, Plan{op: opHaveNot}
		m.peer(from).send(e, nil, nil)
	case inquiry.Hold:
		m.pending = append(m.pending, pendingAsk{from, in.stay()})
	}
}

// give sends a value as if dissemination had: whoever gets it passes it on and
// corrects like any other.
func (m *Member) give(to int, o *operation) {
	e := m.to(to)
	e.seq, e.sign, e.plan, e.kind, e.round = o.seq, o.sign, o.plan, uint8(broadcast.Spread), broadcast.OverRound
	if o.plan.corrected() {
		e.kind, e.round = 0, collective.LaneResult
	}
	o.shared = true
	m.ahead.send(m, to, max(o.seq, m.seq), 0) // who asks once asks again: do not leave it behind
	m.peer(to).send(e, o.value, nil)
}

// answerPending looks again at questions that could not be answered.
func (m *Member) answerPending() {
	if len(m.pending) == 0 {
		return
	}
	asks := m.pending
	m.pending = nil
	for _, a := range asks {
		m.inquiry(a.from, a.in)
	}
}

// remembered tells whether values of finished broadcasts are kept for questions.
func (p Plan) remembered() bool {
	return p.op == opBroadcast && !p.is(scheduled) && (p.correction > correctionAck || p.tree >= treeGossip) || p.op == opAllReduce && p.corrected()
}

// recentMax is how many bytes of values are kept for questions.
const recentMax = 2 << 20

// remember keeps the value of a finished corrected broadcast for questions. Who
// sends to a task is not ahead of it by more than aheadMax, and so no task is by
// more than that times the depth of a tree.
func (m *Member) remember(o *operation) {
	if !o.hasValue || !o.plan.remembered() || o.seq < m.recentFirst { // a timer may have kept it for long
		return
	}
	if m.recent == nil {
		m.recent = map[uint64]*operation{}
	}
	m.recent[o.seq] = o.recalled()
	m.recentBytes += len(o.value)
	most := aheadMax * (1 + bits.Len(uint(m.Size())))
	for m.recentFirst == 0 || len(m.recent) > most || m.recentBytes > recentMax && len(m.recent) > 4 {
		if old := m.recent[m.recentFirst]; old != nil {
			m.recentBytes -= len(old.value)
			delete(m.recent, m.recentFirst)
			if old.pooled && old.copies {
				old.giveBackOne(old.value, old.shared, false)
			}
		}
		m.recentFirst++
	}
}

type pendingAsk struct {
	from int
	in   *incoming
}
