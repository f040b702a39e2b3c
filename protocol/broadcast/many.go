// Several broadcasts at once, from any roots (rule 7 of the design). A
// broadcast is known by its root, the root's incarnation and a sequence number.
// Each has a machine of its own wherever its messages have come; a process
// that may send serves them in turn. A Watermark per root drops what belongs to
// a finished one, so nothing is delivered twice. A process delivers each that
// reaches it, unless it comes after Window later ones of the same root: a root
// should not run ahead that far.

package broadcast

import (
	"errors"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// ID names a broadcast.
type ID struct {
	Seq         uint64 // counted by the root, from 0
	Root        Rank
	Incarnation uint32 // of the root
}

// Tagged is a message of one of many broadcasts. In a Deliver it says which.
type Tagged[M any] struct {
	ID  ID
	Msg M
}

// Many runs broadcasts of one kind from any root. A process starts one when it
// is notified to Begin.
type Many[C, E any] struct {
	each        *Protocol[C, E]
	incarnation uint32 // of the process that runs it
}

// NewMany runs broadcasts like each. They must be of a kind that comes to an end at every live process, whichever processes
// die, and that needs no common start.
func NewMany[C, E any](each *Protocol[C, E], incarnation uint32) (*Many[C, E], error) {
	_, waits := each.Spread.(*AckTree)
	_, serves := any(each.correction).(*Delayed)
	if waits || serves || each.Synchronized {
		return nil, errors.New("many broadcasts with acknowledgements, delayed or synchronized correction; allowed: those that end by themselves")
	}
	return &Many[C, E]{each: each, incarnation: incarnation}, nil
}

var _ protocol.Protocol[ManyState[Walk], Tagged[Message[None]]] = (*Many[Walk, None])(nil)

// ManyState is one process's state in many broadcasts.
type ManyState[C any] struct {
	self    Rank
	seed    uint64
	next    uint64 // sequence number of the next own broadcast
	running []running[C]
	turn    int // index of the one to ask next
	seen    []seen
}

// Clone copies the state, which holds slices, for drivers that keep copies.
func (s *ManyState[C]) Clone() ManyState[C] {
	c := *s
	c.running = slices.Clone(s.running)
	c.seen = slices.Clone(s.seen)
	return c
}

// running is a broadcast that is not Done here.
type running[C any] struct {
	id    ID
	state State[C]
}

// seen is what has been heard of one root's broadcasts.
type seen struct {
	root        Rank
	incarnation uint32
	mark        Watermark
}

// Init implements protocol.Protocol.
func (m *Many[C, E]) Init(s *ManyState[C], self Rank, seed uint64) {
	*s = ManyState[C]{self: self, seed: seed}
}

// Notify implements protocol.Protocol.
func (m *Many[C, E]) Notify(s *ManyState[C], _ Time, n protocol.Notice) {
	if n.Kind != protocol.Begin {
		return
	}
	id := ID{Seq: s.next, Root: s.self, Incarnation: m.incarnation}
	s.next++
	s.note(id)
	m.start(s, id)
}

// Receive implements protocol.Protocol.
func (m *Many[C, E]) Receive(s *ManyState[C], now Time, from Rank, t Tagged[Message[E]]) {
	p := m.rooted(t.ID)
	if i := slices.IndexFunc(s.running, func(r running[C]) bool { return r.id == t.ID }); i >= 0 {
		p.Receive(&s.running[i].state, now, from, t.Msg)
	} else if s.note(t.ID) {
		p.Receive(m.start(s, t.ID), now, from, t.Msg)
	}
}

// Next implements protocol.Protocol. It is never Done: another broadcast may
// come.
func (m *Many[C, E]) Next(s *ManyState[C], now Time) protocol.Action[Tagged[Message[E]]] {
	wait := protocol.Action[Tagged[Message[E]]]{Kind: protocol.Idle, At: protocol.Never}
	for asked := 0; asked < len(s.running); {
		if s.turn >= len(s.running) {
			s.turn = 0
		}
		r := &s.running[s.turn]
		p := m.rooted(r.id)
		a := p.Next(&r.state, now)
		switch a.Kind {
		case protocol.Done:
			s.running = slices.Delete(s.running, s.turn, s.turn+1)
			continue
		case protocol.Wait:
			if a.At < wait.At {
				wait.Kind, wait.At = protocol.Wait, a.At
			}
		case protocol.Send, protocol.Correct, protocol.Deliver:
			s.turn++
			return protocol.Action[Tagged[Message[E]]]{Kind: a.Kind, To: a.To, Msg: Tagged[Message[E]]{ID: r.id, Msg: a.Msg}}
		}
		s.turn++
		asked++
	}
	if s.turn >= len(s.running) {
		s.turn = 0
	}
	return wait
}

// rooted is the protocol of one broadcast.
func (m *Many[C, E]) rooted(id ID) Protocol[C, E] {
	p := *m.each
	p.Root = id.Root
	return p
}

func (m *Many[C, E]) start(s *ManyState[C], id ID) *State[C] {
	s.running = append(s.running, running[C]{id: id})
	state := &s.running[len(s.running)-1].state
	p := m.rooted(id)
	p.Init(state, s.self, protocol.Mix(s.seed, protocol.Mix(id.Seq, uint64(id.Root))))
	return state
}

// note remembers a broadcast and reports whether it is new. A root's later
// incarnation replaces the earlier ones.
func (s *ManyState[C]) note(id ID) bool {
	for i := range s.seen {
		r := &s.seen[i]
		switch {
		case r.root != id.Root:
			continue
		case id.Incarnation < r.incarnation:
			return false
		case id.Incarnation > r.incarnation:
			*r = seen{root: id.Root, incarnation: id.Incarnation}
		}
		return r.mark.Add(id.Seq)
	}
	s.seen = append(s.seen, seen{root: id.Root, incarnation: id.Incarnation})
	return s.seen[len(s.seen)-1].mark.Add(id.Seq)
}
