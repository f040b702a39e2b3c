package agreement

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages.
const (
	Up   Kind = iota + 1 // what the sender and all below it contribute
	Down                 // the decision
)

var kindNames = [...]string{"nothing", "up", "down"}

func (k Kind) String() string { return protocol.Name(k, "Kind", kindNames[:]) }

// Message is what participants send each other, and what a Deliver carries.
type Message struct {
	Kind    Kind
	Abort   bool   // a participant voted to abort; then there is no value
	View    uint64 // in which it is sent
	Decided uint64 // the view in which this decision was made; 0: it is none
	Value   []byte
	Failed  []Rank // of a decision: the participants that were not in that view, in their order
}

// Same reports whether two decisions say the same.
func (m Message) Same(o Message) bool {
	return m.Decided == o.Decided && m.Abort == o.Abort && string(m.Value) == string(o.Value) && slices.Equal(m.Failed, o.Failed)
}

func (m Message) String() string {
	what := fmt.Sprintf("%q", m.Value)
	if m.Abort {
		what = "abort"
	}
	if m.Decided == 0 {
		return fmt.Sprintf("%v %s", m.Kind, what)
	}
	return fmt.Sprintf("%v %s, decided in view %d without %v", m.Kind, what, m.Decided, m.Failed)
}

// ErrMessage is returned for bytes that are no message.
var ErrMessage = errors.New("not a message of an agreement")

// A message as bytes: flags, the views and the failed as varints, these as
// differences; the rest is the value.
const (
	flagDown = 1 << iota
	flagAbort
	flagDecided
	flagsEnd
)

// Append appends the message to b.
func (m Message) Append(b []byte) []byte {
	var flags byte
	if m.Kind == Down {
		flags |= flagDown
	}
	if m.Abort {
		flags |= flagAbort
	}
	if m.Decided != 0 {
		flags |= flagDecided
	}
	b = binary.AppendUvarint(append(b, flags), m.View)
	if m.Decided != 0 {
		b = binary.AppendUvarint(b, m.Decided)
		b = binary.AppendUvarint(b, uint64(len(m.Failed)))
		last := Rank(0)
		for _, r := range m.Failed {
			b = binary.AppendVarint(b, int64(r)-int64(last))
			last = r
		}
	}
	return append(b, m.Value...)
}

// Decode reads a message, whose value stays in b. What it returns is sound.
func Decode(b []byte) (Message, error) {
	r := &protocol.Reader{Rest: b}
	flags := r.Byte()
	m := Message{Kind: Up, Abort: flags&flagAbort != 0, View: r.Uvarint()}
	if flags&flagDown != 0 {
		m.Kind = Down
	}
	if flags&flagDecided != 0 {
		m.Decided, m.Failed = r.Uvarint(), readRanks(r)
	}
	m.Value = r.Rest
	switch {
	case r.Bad || flags >= flagsEnd || m.View == 0:
		return Message{}, fmt.Errorf("%w: %d bytes", ErrMessage, len(b))
	case flags&flagDecided != 0 && (m.Decided == 0 || m.Decided > m.View):
		return Message{}, fmt.Errorf("%w: of view %d, decided in view %d", ErrMessage, m.View, m.Decided)
	case m.Kind == Down && m.Decided == 0:
		return Message{}, fmt.Errorf("%w: down without a decision", ErrMessage)
	case m.Abort && len(m.Value) > 0:
		return Message{}, fmt.Errorf("%w: abort with a value", ErrMessage)
	}
	return m, nil
}

// readRanks reads a list.
func readRanks(r *protocol.Reader) (list []Rank) {
	last := int64(0)
	for range r.Count() {
		x := r.Varint()
		if x < -last || x > math.MaxInt32-last {
			r.Bad = true
		}
		if r.Bad {
			return nil
		}
		last += x
		list = append(list, Rank(last))
	}
	return list
}

// fingerprint tells values apart, for all practical purposes.
type fingerprint [2]uint64

func (f fingerprint) with(x uint64) fingerprint {
	return fingerprint{protocol.Mix(f[0], x), protocol.Mix(f[1]^0x9e3779b97f4a7c15, x+f[0])}
}

func (f fingerprint) bytes(b []byte) fingerprint {
	for _, x := range b {
		f = f.with(uint64(x))
	}
	return f.with(uint64(len(b)))
}

func (f fingerprint) ranks(list []Rank) fingerprint {
	for _, r := range list {
		f = f.with(uint64(uint32(r)))
	}
	return f.with(uint64(len(list)))
}

func (f fingerprint) flags(list ...bool) fingerprint {
	var x uint64
	for i, set := range list {
		if set {
			x |= 1 << i
		}
	}
	return f.with(x)
}

func (f fingerprint) message(m Message) fingerprint {
	return f.with(uint64(m.Kind)).flags(m.Abort).with(m.View).with(m.Decided).bytes(m.Value).ranks(m.Failed)
}

// Fingerprint stands for the message.
func (m Message) Fingerprint() [2]uint64 { return fingerprint{}.message(m) }

// Fingerprint stands for the state, among those of one participant.
func (s *State) Fingerprint() [2]uint64 {
	f := fingerprint{}.bytes(s.value).message(s.decision).with(s.view).ranks(s.live).bytes(s.sum)
	f = f.flags(s.begun, s.abort, s.delivered, s.working, s.raised, s.settled)
	for _, m := range s.came {
		f = f.message(m)
	}
	for _, h := range s.held {
		f = f.with(uint64(h.from)).message(h.msg)
	}
	return f.with(uint64(s.folded)).with(uint64(s.told)).with(uint64(s.stale)).with(uint64(len(s.held)))
}

// Clone returns a copy that shares nothing that changes.
func (s *State) Clone() State {
	c := *s
	c.came, c.held = slices.Clone(s.came), slices.Clone(s.held)
	return c
}
