package logp

import (
	"container/heap"
	"math/bits"
	"reflect"

	"github.com/coppice-go/coppice/protocol"
)

// event is a message in flight: it is received when its slot comes.
type event[M any] struct {
	to   protocol.Rank
	from protocol.Rank // its complement if it is a correction
	msg  M
}

// sender returns which process sent the message, and whether as a correction.
func (e *event[M]) sender() (from protocol.Rank, correction bool) {
	sign := e.from >> 31 // −1 if negative
	return e.from ^ sign, sign != 0
}

// chunk is a piece of a slot's list of messages. Chunks are recycled as soon as
// they are read, so memory follows what is in flight.
type chunk[M any] struct {
	next   *chunk[M]
	n      int
	events [chunkLen]event[M]
}

const chunkLen = 512

// slot is what happens at one moment: messages whose receive ends, in the order of their sends, and ranks
// that may act, because their send port is free again or their wait is over.
type slot[M any] struct {
	first, last *chunk[M]
	ready       *readySet
}

// calendar holds what happens in the future: a wheel of slots for the near
// future, heaps for what lies beyond it.
type calendar[M any] struct {
	slots    []slot[M] // by time modulo their number, a power of two
	occupied []uint64  // which slots are not empty
	now      protocol.Time
	ranks    int

	far      planned[M]
	arrivals uint64 // numbers far events, to keep their order

	wakeAt  protocol.Time // of the last wake; 0: none
	wakeSet *readySet     // … and its set

	freeChunks *chunk[M]
	chunks     int // how many there are
	freeSets   []*readySet
}

// planned is a heap of future events, the earliest first.
type planned[M any] []farEvent[M]

// farEvent is a message or a wake-up beyond the wheel, or a message in flight to a station.
type farEvent[M any] struct {
	at      protocol.Time
	order   uint64 // among equals in time
	wake    bool
	station station
	extra   protocol.Time // for its bytes
	event   event[M]
}

func (h planned[M]) Len() int { return len(h) }
func (h planned[M]) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h planned[M]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *planned[M]) Push(x any)   { *h = append(*h, x.(farEvent[M])) }
func (h *planned[M]) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = farEvent[M]{} // it may hold memory
	*h = (*h)[:last]
	return x
}

// next returns when the earliest event comes.
func (h planned[M]) next() protocol.Time {
	if len(h) == 0 {
		return protocol.Never
	}
	return h[0].at
}

// bytes returns how much memory the events take.
func (h planned[M]) bytes() int { return len(h) * int(reflect.TypeFor[farEvent[M]]().Size()) }

// wheelMax bounds the wheel; larger L and o are slower, not wrong.
const wheelMax = 4096

// newCalendar makes a calendar for the given number of ranks. Most events should happen less than span after
// they are planned.
func newCalendar[M any](ranks int, span protocol.Time) *calendar[M] {
	size := 64
	for size < wheelMax && protocol.Time(size) < 4*span {
		size *= 2
	}
	return &calendar[M]{slots: make([]slot[M], size), occupied: make([]uint64, size/64), ranks: ranks}
}

// at returns the slot of a moment within the wheel, to put something into it.
func (c *calendar[M]) at(t protocol.Time) *slot[M] {
	i := uint64(t) & uint64(len(c.slots)-1)
	c.occupied[i>>6] |= 1 << (i & 63)
	return &c.slots[i]
}

func (c *calendar[M]) near(t protocol.Time) bool { return t-c.now < protocol.Time(len(c.slots)) }

// send plans the arrival of messages whose receive ends at the same moment.
func (c *calendar[M]) send(t protocol.Time, messages []event[M]) {
	if !c.near(t) {
		for _, e := range messages {
			c.arrivals++
			heap.Push(&c.far, farEvent[M]{at: t, order: c.arrivals, event: e})
		}
		return
	}
	s := c.at(t)
	for len(messages) > 0 {
		if s.last == nil || s.last.n == chunkLen {
			c.grow(s)
		}
		n := copy(s.last.events[s.last.n:], messages)
		s.last.n += n
		messages = messages[n:]
	}
}

func (c *calendar[M]) grow(s *slot[M]) {
	n := c.freeChunks
	if n == nil {
		n = new(chunk[M])
		c.chunks++
	} else {
		c.freeChunks = n.next
		n.next, n.n = nil, 0
	}
	if s.last == nil {
		s.first = n
	} else {
		s.last.next = n
	}
	s.last = n
}

// bytes returns how much memory the messages in flight take at most.
func (c *calendar[M]) bytes() int {
	return c.chunks*int(reflect.TypeFor[chunk[M]]().Size()) + c.far.bytes()
}

func (c *calendar[M]) recycle(k *chunk[M]) {
	k.next = c.freeChunks
	c.freeChunks = k
}

// wake plans that a rank may act. Many ranks wait for the same moment, so wake keeps the latest set at hand.
func (c *calendar[M]) wake(t protocol.Time, r protocol.Rank) {
	if t != c.wakeAt {
		if !c.near(t) {
			c.arrivals++
			heap.Push(&c.far, farEvent[M]{at: t, order: c.arrivals, wake: true, event: event[M]{to: r}})
			return
		}
		c.wakeAt, c.wakeSet = t, c.readyAt(t)
	}
	c.wakeSet.set(int(r))
}

// wakeWord plans that the ranks of one word of a set may act.
func (c *calendar[M]) wakeWord(t protocol.Time, w int, word uint64) {
	if c.near(t) {
		c.readyAt(t).or(w, word)
		return
	}
	for ; word != 0; word &= word - 1 {
		c.wake(t, protocol.Rank(w<<6+bits.TrailingZeros64(word)))
	}
}

// readyAt returns the set of ranks that may act at t.
func (c *calendar[M]) readyAt(t protocol.Time) *readySet {
	s := c.at(t)
	if s.ready == nil {
		if n := len(c.freeSets); n > 0 {
			s.ready = c.freeSets[n-1]
			c.freeSets = c.freeSets[:n-1]
		} else {
			s.ready = newReadySet(c.ranks)
		}
	}
	return s.ready
}

// advance goes to the next moment at which something happens, not later than
// limit, and reports whether there is one.
func (c *calendar[M]) advance(limit protocol.Time) bool {
	next := min(limit, c.nextNear(), c.far.next())
	if next == protocol.Never {
		return false
	}
	c.now = next
	for len(c.far) > 0 && c.near(c.far[0].at) {
		f := heap.Pop(&c.far).(farEvent[M])
		if f.wake {
			c.wake(f.at, f.event.to)
		} else {
			c.send(f.at, []event[M]{f.event})
		}
	}
	return true
}

// nextNear returns the earliest moment in the wheel after now.
func (c *calendar[M]) nextNear() protocol.Time {
	n := uint64(len(c.slots))
	from := (uint64(c.now) + 1) & (n - 1)
	words := uint64(len(c.occupied))
	for i := uint64(0); i <= words; i++ {
		w := (from>>6 + i) % words
		word := c.occupied[w]
		if i == 0 {
			word &^= 1<<(from&63) - 1
		} else if i == words {
			word &= 1<<(from&63) - 1
		}
		if word != 0 {
			pos := w<<6 + uint64(bits.TrailingZeros64(word))
			return c.now + 1 + protocol.Time((pos-from)&(n-1))
		}
	}
	return protocol.Never
}

// take empties the present slot.
func (c *calendar[M]) take() slot[M] {
	i := uint64(c.now) & uint64(len(c.slots)-1)
	c.occupied[i>>6] &^= 1 << (i & 63)
	s := c.slots[i]
	c.slots[i] = slot[M]{}
	return s
}

// release returns an emptied set of ready ranks.
func (c *calendar[M]) release(b *readySet) { c.freeSets = append(c.freeSets, b) }

// reset forgets everything planned.
func (c *calendar[M]) reset() {
	for i := range c.slots {
		s := &c.slots[i]
		for k := s.first; k != nil; {
			next := k.next
			c.recycle(k)
			k = next
		}
		if s.ready != nil {
			s.ready.clear()
			c.release(s.ready)
		}
		*s = slot[M]{}
	}
	clear(c.occupied)
	c.far = c.far[:0]
	c.now, c.wakeAt = 0, 0
}
