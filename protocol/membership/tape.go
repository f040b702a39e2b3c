package membership

import (
	"encoding/json"

	"github.com/coppice-go/coppice/protocol"
)

// Line is a call of a machine as it is written down: one line of JSON. The first line of a machine says in Call what
// kind it is, and in Values what it begins with. V is any to write, json.RawMessage to read.
type Line[V any] struct {
	Who     Member // the process
	Machine uint64 // its number in that process
	Call    string
	Values  []V `json:",omitempty"`
}

// MarshalJSON writes the message as it goes to others.
func (m Message) MarshalJSON() ([]byte, error) {
	if m.Letter == nil {
		return []byte("null"), nil
	}
	return json.Marshal(m.Append(nil))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Message) UnmarshalJSON(text []byte) error {
	var b []byte
	err := json.Unmarshal(text, &b)
	if err == nil && b != nil {
		*m, err = Decode(b)
	}
	return err
}

// Tape is a process's part in the membership that notes its calls.
type Tape struct {
	State
	protocol *Protocol
	note     protocol.Note
}

// NewTape returns the part of a process in its job's membership.
func NewTape(cfg Config, self protocol.Rank, note protocol.Note) (*Tape, error) {
	p, err := New(cfg)
	if err != nil {
		return nil, err
	}
	t := &Tape{protocol: p, note: note}
	p.Init(&t.State, self, uint64(self))
	return t, nil
}

// Notify is Protocol.Notify, and so on for the others.
func (t *Tape) Notify(now protocol.Time, n protocol.Notice) {
	if t.protocol.Notify(&t.State, now, n); t.note != nil {
		t.note("Notify", now, n)
	}
}

func (t *Tape) Receive(now protocol.Time, from protocol.Rank, m Message) {
	if t.protocol.Receive(&t.State, now, from, m); t.note != nil {
		t.note("Receive", now, from, m)
	}
}

func (t *Tape) Heard(now protocol.Time, m Member) {
	if t.protocol.Heard(&t.State, now, m); t.note != nil {
		t.note("Heard", now, m)
	}
}

func (t *Tape) Limit(who Member, most int) {
	if t.protocol.Limit(&t.State, who, most); t.note != nil {
		t.note("Limit", who, most)
	}
}

func (t *Tape) Leave(now protocol.Time, free uint64) {
	if t.protocol.Leave(&t.State, now, free); t.note != nil {
		t.note("Leave", now, free)
	}
}

func (t *Tape) Balance(view, epoch uint64) {
	if t.protocol.Balance(&t.State, view, epoch); t.note != nil {
		t.note("Balance", view, epoch)
	}
}

func (t *Tape) Next(now protocol.Time) protocol.Action[Message] {
	a := t.protocol.Next(&t.State, now)
	if t.note != nil {
		t.note("Next", now, a)
	}
	return a
}

// Gathering is Protocol.Gathering.
func (t *Tape) Gathering() bool { return t.protocol.Gathering(&t.State) }

// Neighbours lists the processes with which this one exchanges the next view first: its children in the tree, and those
// of the proposer if this process is the proposer's heir.
func (t *Tape) Neighbours() []protocol.Rank {
	return append(t.protocol.Children(&t.State), t.protocol.Heir(&t.State)...)
}
