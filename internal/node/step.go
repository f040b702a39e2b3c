package node

import (
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// now is the time, for machines that care: to tell it costs more than a step.
func (o *operation) now() protocol.Time {
	if o.plan.remembered() {
		return o.m.p.engine.Now()
	}
	return 0
}

// step asks the machine what to do until it has nothing more.
func (o *operation) step() {
	p := o.m.p
	for !o.finished && o.err == nil && !p.dead {
		if o.pausing > 0 && o.pausing > o.now() {
			return // the timer goes on
		}
		a := o.machine.next(o.now())
		switch a.Kind {
		case protocol.Send:
			o.transmit(a)
		case protocol.Correct:
			o.transmit(a)
			o.pause()
		case protocol.Deliver:
			o.deliver(a.Msg.step())
		case protocol.Work:
			if o.fold(a.Msg.step()) {
				return
			}
		case protocol.Wait:
			o.timed = true
			p.engine.At(a.At, o.step)
			return
		case protocol.Done:
			o.finished = true
		default:
			if len(o.early) == 0 || !o.due() {
				return
			}
		}
	}
	o.retire()
}

// Correction is sent to ever farther neighbours until one is heard of, which takes
// about as long as a message; to send faster is in vain. While nobody is known to
// have died it is most likely not needed at all, and need not be in a hurry.
const (
	correctEvery   = lingerTime
	correctHurried = protocol.Time(100 * time.Microsecond)
)

// pause lets others be heard before more is sent than one message to each side.
func (o *operation) pause() {
	p := o.m.p
	if o.corrections++; o.corrections < 2 || !o.plan.repairs() {
		return
	}
	d := correctEvery
	if p.roster.Deaths() {
		d = correctHurried
	}
	o.pausing, o.timed = o.now()+d, true
	p.engine.At(o.pausing, o.step)
}

// transmit sends a machine's message.
func (o *operation) transmit(a action) {
	m, to := o.m, int(a.To)
	e := m.to(to)
	e.seq, e.sign, e.plan = o.seq, o.sign, o.plan
	e.extra, e.kind, e.round = a.Msg.extra, a.Msg.kind, a.Msg.round
	var value []byte
	var step int32
	if o.sched != nil {
		step = a.Msg.step()
		value, e.extra = o.load(step)
	} else if a.Msg.value {
		value = o.value
	}
	value = o.logged(to, &e, value, step)
	if m.p.reran(m.task) && m.ahead.Has(to, o.seq) && !m.p.checks() { // an earlier attempt has sent it
		o.counted()
		return
	}
	q := m.peer(to)
	var t terms
	if o.entered {
		t.member = m
	}
	if a.Kind == protocol.Correct { // almost always the receiver has the value
		t.lazy = !m.p.roster.Deaths() && (o.plan.repairs() || o.plan.corrected())
		if len(value) > inlineMax && q.local == nil {
			value, e.kind = nil, e.kind|withheld
		}
	}
	o.shared = o.shared || o.sched == nil && len(value) > 0
	if q.local != nil && len(value) > inlineMax {
		o.lends = true
	}
	t.eager = m.ahead.send(m, to, o.seq, min(len(value), eagerMax))
	if !o.diesSending(q, e, value) {
		q.sendOn(t, e, value)
	}
}
