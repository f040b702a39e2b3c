package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/grant"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Large values of operations: to a task that has long completed nothing, a sender sends only the beginning,
// and the rest when the receiver grants it; package grant decides when. This model leaves out that what
// follows a beginning in a broadcast waits for the rest.

// beginMin is the size from which a message may be sent in parts. roomMax is how many bytes a process takes
// that no task of it has asked for.
const (
	beginMin = 2 * 8
	roomMax  = 8 * 8
)

// errRoom means that messages that no task has asked for take room without need, or too much of it.
var errRoom = errors.New("room is taken that should not be")

// piece is a copy of a message whose beginning has come.
type piece struct {
	grant.In
	frame  *Frame // the beginning
	by     membership.Member
	number uint32
	size   int64
	heard  bool
}

// emitOn sends a message; free: all at once, even if it is large.
func (t *task) emitOn(f *Frame, free bool) {
	if free || len(f.Value) < beginMin {
		t.out = append(t.out, f)
		return
	}
	b := t.memory.frames.one()
	*b = *f
	b.asks = true
	t.out = append(t.out, b)
}

// beginning returns a message as it goes to a process first: all of it, or its beginning.
func (j *Job) beginning(s *State, f *Frame, to protocol.Rank) Message {
	if !f.asks {
		m := j.memory.message(f.kind())
		m.Frame = f
		return m
	}
	for int(to) >= len(s.asked) {
		s.asked = append(s.asked, grant.Out[*Frame]{})
	}
	b := j.memory.frames.one()
	*b = Frame{Name: f.Name, Past: f.Past}
	m := j.memory.message(Beginning)
	m.Frame, m.Number, m.Size = b, s.asked[to].Ask(f), int64(len(f.Value))
	return m
}

// answered sends the rest of a message that a process wants, and forgets a message that it refuses.
func (j *Job) answered(s *State, from protocol.Rank, m Message) {
	if int(from) >= len(s.asked) {
		return
	}
	f, ok := s.asked[from].Answered(m.Number)
	if !ok || m.Kind == Refusal {
		return
	}
	rest := j.memory.message(Rest)
	rest.Frame, rest.Number = f, m.Number
	s.parcels = append(s.parcels, parcel{from, rest})
}

// beginningCame takes the beginning of a message.
func (j *Job) beginningCame(s *State, by membership.Member, m Message) {
	p := j.memory.pieces.one()
	*p = piece{frame: m.Frame, by: by, number: m.Number, size: m.Size}
	s.pieces = append(s.pieces, p)
}

// lookPieces checks which messages to request or refuse now. It forgets those that will not come.
func (j *Job) lookPieces(s *State) {
	kept := s.pieces[:0]
	for _, p := range s.pieces {
		if s.view.Past(p.by) {
			p.Free(&s.room)
			continue
		}
		if j.lookPiece(s, p); !p.Complete() || p.Void() {
			kept = append(kept, p)
		}
	}
	clear(s.pieces[len(kept):])
	s.pieces = kept
	used := s.room.Used()
	if wrong := used < 0 || used > roomMax || used > 0 && len(kept) == 0; wrong && len(s.tasks) > 0 && s.tasks[0].err == nil {
		s.tasks[0].err = fmt.Errorf("%w: %d bytes for %d", errRoom, used, len(kept))
	}
}

// lookPiece grants or refuses the rest of a message, if it is time.
func (j *Job) lookPiece(s *State, p *piece) {
	t := s.find(p.frame.To)
	if t == nil || uint64(p.frame.Epoch) > t.epoch || !s.view.Has(p.by) { // or it is not yet: what goes to it waits
		return
	}
	if !p.heard {
		p.heard = true
		j.counts(s, t, said{p.frame, p.by})
	}
	at := j.program.index(p.frame.Name)
	switch {
	case t.without(j.program, at, p.frame):
		if p.Drop(&s.room) {
			s.seen |= Refused
			j.answer(s, p, Refusal)
		}
	case at == t.op && t.begun:
		if p.Want() {
			j.answer(s, p, Grant)
		}
	case j.program.Calls[at].unasked():
		if p.WantEarly(&s.room, p.size) {
			j.answer(s, p, Grant)
		} else if !p.Answered() {
			s.seen |= NoRoom
		}
	}
}

// without reports whether the task does not need a message: the operation is over, or another copy has come.
func (t *task) without(g *Program, at int, f *Frame) bool {
	if c := t.cast(at); c != nil {
		return c.done || c.has
	}
	if at < t.op || t.returned || 0 < f.Epoch && uint64(f.Epoch) < t.epoch {
		return true
	}
	return slices.ContainsFunc(t.early[at], func(e *Frame) bool { return e.Name == f.Name }) ||
		at == t.op && t.begun && g.Calls[at].schedule != nil && t.steps.Match(f.From, f.Lane) < 0
}

// answer tells the process that a message comes from whether its rest is wanted.
func (j *Job) answer(s *State, p *piece, k Kind) {
	m := j.memory.message(k)
	m.Number = p.number
	s.parcels = append(s.parcels, parcel{p.by.ID, m})
}

// restCame takes the rest of a message. Other copies of it are no longer needed.
func (j *Job) restCame(s *State, by membership.Member, m Message) {
	at := slices.IndexFunc(s.pieces, func(p *piece) bool { return p.by == by && p.number == m.Number })
	if at < 0 {
		return
	}
	p := s.pieces[at]
	s.pieces = slices.Delete(s.pieces, at, at+1)
	void := p.Void()
	p.Came()
	p.Free(&s.room)
	if t := s.find(m.Frame.To); t != nil && !void {
		t.accept(j.program, m.Frame)
	}
}

// Begun reports whether the process has the beginning of a message of another one, and has asked for the rest.
func (s *State) Begun(by membership.Member) bool {
	return slices.ContainsFunc(s.pieces, func(p *piece) bool { return p.by == by && p.Answered() })
}
