package runtime

import "math/bits"

// buffers are pieces of memory for what is received, used again as soon as the
// operation that they were for is over and nobody else refers to them: to allocate
// and clear a megabyte takes longer than to receive it.
type buffers struct {
	free  [bufferClasses][][]byte // by the logarithm of their size
	bytes int                     // in them
}

const (
	bufferMin     = 12 // logarithms of the smallest and the largest
	bufferMax     = 23
	bufferClasses = bufferMax - bufferMin + 1
	buffersMax    = 64 << 20 // bytes that are kept
)

// get returns memory for n bytes; they are not zero.
func (b *buffers) get(n int) []byte {
	class := max(bits.Len(uint(n-1)), bufferMin) - bufferMin
	if class >= bufferClasses {
		return make([]byte, n)
	}
	if have := b.free[class]; len(have) > 0 {
		last := len(have) - 1
		m := have[last]
		have[last] = nil
		b.free[class] = have[:last]
		b.bytes -= cap(m)
		return m[:n]
	}
	return make([]byte, n, 1<<(class+bufferMin))
}

// put takes memory back that get returned.
func (b *buffers) put(m []byte) {
	class := bits.Len(uint(cap(m)-1)) - bufferMin
	if class < 0 || class >= bufferClasses || cap(m) != 1<<(class+bufferMin) || b.bytes+cap(m) > buffersMax {
		return
	}
	b.bytes += cap(m)
	b.free[class] = append(b.free[class], m)
}

// borrow takes note that memory is used until the operation is over, and returns
// the number of the loan.
func (o *operation) borrow(m []byte) (loan int32) {
	o.borrowed = append(o.borrowed, m)
	return int32(len(o.borrowed))
}

// giveBack ends all loans, except of memory that others may still read. What the
// result is in goes back when the task calls its next operation, if it copies it.
func (o *operation) giveBack() {
	m := o.m
	if o.pooled && !o.shared && o.copies {
		m.later = append(m.later, o.value)
	}
	for i, b := range o.borrowed {
		sent, result := o.sched.store.Refers(int32(i + 1))
		switch {
		case sent, result && !o.copies:
		case result:
			m.later = append(m.later, b)
		default:
			m.p.buffers.put(b)
		}
		o.borrowed[i] = nil
	}
	o.borrowed = o.borrowed[:0]
}

// giveBackResult ends the loans of the last result.
func (m *Member) giveBackResult() {
	for i, b := range m.later {
		m.p.buffers.put(b)
		m.later[i] = nil
	}
	m.later = m.later[:0]
}
