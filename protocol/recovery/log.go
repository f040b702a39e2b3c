package recovery

import (
	"encoding/binary"
	"iter"
)

// Log is what one task has sent to the others of a group, by the rank of the
// receiver and in the order it was sent. A message is a head, of the same length in
// all of them, and a value. Heads and small values are copied into pages without
// pointers, so that a log of many messages costs the garbage collector nothing.
type Log struct {
	// Room returns memory for pages; nil: it is allocated.
	Room func(n int) []byte

	head  int
	ranks []sent
	last  *byte // where the large value that was added last begins
}

// sent is what was sent to one rank.
type sent struct {
	pages [][]byte
	large [][]byte // values that are not in the pages
}

// Sizes of a log's memory.
const (
	Inline  = 2 << 10  // the size in bytes up to which values are copied
	pageMin = 512      // in bytes
	pageMax = 64 << 10 // of a page
	isLarge = 1 << 31  // in place of a length: the value is elsewhere
)

// NewLog returns the log of a task whose messages have heads of the given size in bytes.
func NewLog(head int) *Log { return &Log{head: head} }

// Reset makes l an empty log of messages with such heads, in the memory of its lists.
func (l *Log) Reset(head int) {
	for i := range l.ranks {
		s := &l.ranks[i]
		s.pages, s.large = s.pages[:0], s.large[:0]
	}
	l.head, l.last = head, nil
}

// Add adds a message. A value of more than Inline bytes is kept as it is: it must
// not change any more. Add returns by how much the memory of the log has grown.
func (l *Log) Add(to int, head, value []byte) (grown int) {
	if more := to + 1 - len(l.ranks); more > 0 {
		l.ranks = append(l.ranks, make([]sent, more)...)
	}
	s := &l.ranks[to]
	n, inline := uint32(len(value)), value
	if len(value) > Inline {
		n, inline = isLarge|uint32(len(s.large)), nil
		s.large = append(s.large, value)
		if grown = 24; l.last != &value[0] { // otherwise the same value goes to several ranks
			l.last = &value[0]
			grown += len(value)
		}
	}
	need := l.head + 4 + len(inline)
	last := len(s.pages) - 1
	if last < 0 || len(s.pages[last])+need > cap(s.pages[last]) {
		size := pageMin
		if last >= 0 {
			size = min(2*cap(s.pages[last]), pageMax)
		}
		size = max(size, need)
		s.pages = append(s.pages, l.room(size)[:0])
		last++
		grown += size
	}
	page := append(s.pages[last], head[:l.head]...)
	page = binary.LittleEndian.AppendUint32(page, n)
	s.pages[last] = append(page, inline...)
	return grown
}

// room returns memory for a page.
func (l *Log) room(n int) []byte {
	if l.Room == nil {
		return make([]byte, n)
	}
	return l.Room(n)
}

// To yields the messages to a rank that are in the log now, in order. The caller must not change heads
// or values.
func (l *Log) To(rank int) iter.Seq2[[]byte, []byte] {
	return func(yield func(head, value []byte) bool) {
		if l == nil || rank >= len(l.ranks) { // a missing log is one without messages
			return
		}
		s := l.ranks[rank]
		for _, page := range s.pages {
			for len(page) > 0 {
				head, n := page[:l.head:l.head], binary.LittleEndian.Uint32(page[l.head:])
				page = page[l.head+4:]
				var value []byte
				if n&isLarge != 0 {
					value = s.large[n&^isLarge]
				} else {
					value, page = page[:n:n], page[n:]
				}
				if !yield(head, value) {
					return
				}
			}
		}
	}
}
