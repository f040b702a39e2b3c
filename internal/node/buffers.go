package node

import "slices"

// borrow takes note that memory is used until the operation is over, and returns
// the number of the loan.
func (o *operation) borrow(m []byte) (loan int32) {
	o.borrowed = append(o.borrowed, m)
	return int32(len(o.borrowed))
}

// giveBack ends all loans. What the result is in goes back when the task calls its
// next operation, if it copies it; what was sent, when all have it.
func (o *operation) giveBack() {
	if o.pooled && o.copies {
		o.giveBackOne(o.value, o.shared, true)
	}
	for i, b := range o.borrowed {
		sent, result := o.sched.store.Refers(int32(i + 1))
		if !result || o.copies {
			o.giveBackOne(b, sent, result)
		}
		o.borrowed[i] = nil
	}
	for i, b := range o.bundles {
		o.giveBackOne(b, true, false)
		o.bundles[i] = nil
	}
	o.borrowed, o.bundles = o.borrowed[:0], o.bundles[:0]
}

// giveBackOne gives back memory, as soon as others have it if it was sent, and the
// task has copied it if it is a result. If a task of this program may read it, it is
// left to the garbage collector.
func (o *operation) giveBackOne(b []byte, sent, result bool) {
	m := o.m
	switch {
	case b == nil: // the log has it
	case sent:
		if len(m.parked) < parkedMax && !o.lends {
			m.parked = append(m.parked, parked{b, o.seq})
		}
	case result:
		m.later = append(m.later, b)
	default:
		m.p.engine.Buffers.Put(b)
	}
}

// parked is memory that was sent in an operation.
type parked struct {
	memory []byte
	seq    uint64
}

// parkedMax is how many of them are kept.
const parkedMax = 256

// reclaim gives back what is no longer needed, as the task calls its next operation.
func (m *Member) reclaim() {
	for i, b := range m.later {
		m.p.engine.Buffers.Put(b)
		m.later[i] = nil
	}
	m.later = m.later[:0]
	n := 0
	compared := m.p.checks() && m.p.reran(m.task) // who has a value compares it with what is still to be sent
	for n < len(m.parked) && m.ahead.Passed(m.parked[n].seq) {
		if !compared {
			m.p.engine.Buffers.Put(m.parked[n].memory)
		}
		n++
	}
	m.parked = slices.Delete(m.parked, 0, n)
}
