package replay

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Memory is what programs and their jobs allocate from when they run one after the other. The zero value
// allocates each time, for jobs whose states are copied.
type Memory struct {
	contents *arena[Content]
	frames   *arena[Frame]
	tasks    *arena[task]
	copies   *arena[Copy]
	attempts *arena[Attempt]
	rules    *arena[recovery.Message]
	machines *arena[recovery.Machine]
	streams  *arena[stream]
	casts    *arena[cast]
	accounts *arena[ahead]
	pieces   *arena[piece]
	logs     *arena[recovery.Log]
	letters  *arena[membership.Letter]
	ends     *arena[end]
	programs *arena[Program]
	calls    *arena[Call]
	plans    *arena[[]*Plan]
	bytes    *arena[byte]
	blocks   *arena[[]byte]
	results  *arena[[][]byte]
	words    *arena[uint64]
	lists    *arena[[]uint64]
	ints     *arena[int]
	ranks    *arena[protocol.Rank]
	members  *arena[membership.Member]
	shelves  map[*Plan]*shelf
	resets   uint64
	all      []interface{ reset() }
	room     func(n int) []byte        // of a log; nil: it allocates
	letter   func() *membership.Letter // likewise
}

// NewMemory returns memory that is reused after each Reset.
func NewMemory() *Memory {
	m := &Memory{shelves: map[*Plan]*shelf{}}
	m.all = []interface{ reset() }{
		begin(&m.contents), begin(&m.frames), begin(&m.tasks), begin(&m.copies), begin(&m.attempts),
		begin(&m.rules), begin(&m.machines), begin(&m.streams), begin(&m.casts), begin(&m.accounts), begin(&m.pieces), begin(&m.logs), begin(&m.letters),
		begin(&m.ends), begin(&m.programs), begin(&m.calls), begin(&m.plans), begin(&m.bytes),
		begin(&m.blocks), begin(&m.results), begin(&m.words), begin(&m.lists), begin(&m.ints),
		begin(&m.ranks), begin(&m.members),
	}
	m.room, m.letter = m.bytes.list, m.letters.one
	return m
}

// Reset frees everything: nothing that was allocated from this memory may be used anymore.
func (m *Memory) Reset() {
	m.resets++
	for _, a := range m.all {
		a.reset()
	}
}

// again reports whether the memory is reused.
func (m *Memory) again() bool { return m.bytes != nil }

// message returns an empty message of a kind.
func (m *Memory) message(k Kind) Message {
	c := m.contents.one()
	*c = Content{Kind: k}
	return Message{c}
}

// clone copies bytes; it returns nil for nil.
func (m *Memory) clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	c := m.bytes.list(len(b))
	copy(c, b)
	return c
}

// shelf is the runners of one plan's broadcasts.
type shelf struct {
	runners []broadcast.Runner
	used    int
	reset   uint64 // after which they were
}

// runner returns a runner of a plan, in any state.
func (m *Memory) runner(p *Plan) broadcast.Runner {
	if !m.again() {
		return p.runners()
	}
	s := m.shelves[p]
	if s == nil {
		s = new(shelf)
		m.shelves[p] = s
	}
	if s.reset != m.resets {
		s.used, s.reset = 0, m.resets
	}
	if s.used == len(s.runners) {
		s.runners = append(s.runners, p.runners())
	}
	s.used++
	return s.runners[s.used-1]
}

// arena hands out values of one type. A nil arena allocates each.
type arena[T any] struct {
	room []T // what was handed out
}

// begin makes an arena that reuses its memory.
func begin[T any](a **arena[T]) *arena[T] {
	*a = new(arena[T])
	return *a
}

// one returns a value: zero, or what was left there before the last reset.
func (a *arena[T]) one() *T {
	if a == nil {
		return new(T)
	}
	if at := len(a.room); at < cap(a.room) {
		a.room = a.room[:at+1]
		return &a.room[at]
	}
	return &a.list(1)[0]
}

// zeros returns n zero values.
func (a *arena[T]) zeros(n int) []T {
	all := a.list(n)
	clear(all)
	return all
}

// list returns n values.
func (a *arena[T]) list(n int) []T {
	if a == nil {
		return make([]T, n)
	}
	at := len(a.room)
	if a.room == nil || cap(a.room)-at < n {
		a.room, at = make([]T, 0, max(2*cap(a.room), n, 64)), 0 // values handed out before remain with their users
	}
	a.room = a.room[:at+n]
	return a.room[at : at+n : at+n]
}

// pop removes the first element of a list without moving the others.
func pop[T any](list *[]T) T {
	first := (*list)[0]
	*list = (*list)[:copy(*list, (*list)[1:])]
	return first
}

// reset makes all values available again.
func (a *arena[T]) reset() { a.room = a.room[:0] }
