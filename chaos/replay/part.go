package replay

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Messages of streams in parts: of every other message the beginning goes first. A process that crashes
// between the parts leaves the receiver with a beginning; another attempt then sends the whole message.

// begun takes the place of streamed in the Name of a beginning.
const begun = -3

// inParts reports whether a message is sent in parts.
func inParts(f *Frame) bool { return f.Op == streamed && (protocol.Rank(f.Lane)+f.From)%2 == 1 }

// emit sends a message.
func (t *task) emit(f *Frame) {
	if inParts(f) {
		b := t.memory.frames.one()
		*b = Frame{Name: f.Name, Past: f.Past}
		b.Op = begun
		t.out = append(t.out, b)
	}
	t.out = append(t.out, f)
}

// wanted reports whether the rest of a message is wanted: its beginning came from the same process and was
// not one of a message that has come.
func (st *stream) wanted(f said) bool {
	at := slices.IndexFunc(st.rests, func(r said) bool { return r.Lane == f.Lane && r.by == f.by })
	if at >= 0 {
		st.rests = slices.Delete(st.rests, at, at+1)
	}
	return at >= 0
}

// Halfway reports whether the process is about to send the rest of a message of a task.
func (s *State) Halfway(task protocol.Rank) bool {
	out := s.Outgoing(task)
	return len(out) > 0 && inParts(out[0])
}
