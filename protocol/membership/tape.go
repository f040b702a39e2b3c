package membership

import "github.com/coppice-go/coppice/protocol"

// Step is a call that may change a process's part in the membership, and what came of it. All
// steps, in order, say all that it has done: whoever takes them again finds the same.
type Step struct {
	Call   Call
	Config *Config          `json:",omitempty"`
	Now    protocol.Time    `json:",omitempty"`
	From   protocol.Rank    `json:",omitempty"` // of an Init: this process
	Msg    []byte           `json:",omitempty"` // as Append writes it
	Notice *protocol.Notice `json:",omitempty"`
	Who    *Member          `json:",omitempty"`
	Number uint64           `json:",omitempty"` // of tasks, or of an epoch

	Came *Came `json:",omitempty"` // of a Next
}

// Came is an action, as it is written down.
type Came struct {
	Kind protocol.Kind
	At   protocol.Time `json:",omitempty"`
	To   protocol.Rank `json:",omitempty"`
	Msg  []byte        `json:",omitempty"`
	View *View         `json:",omitempty"` // that is opened
}

// Call names the method of a step.
type Call string

// The calls.
const (
	CallInit    Call = "init"
	CallNotify  Call = "notify"
	CallReceive Call = "receive"
	CallHeard   Call = "heard"
	CallLimit   Call = "limit"
	CallBalance Call = "balance"
	CallNext    Call = "next"
)

// Take takes a step, and sets what comes of it. Of an Init, p is set.
func (s *Step) Take(p **Protocol, of *State) error {
	switch s.Call {
	case CallInit:
		made, err := New(*s.Config)
		if err != nil {
			return err
		}
		*p = made
		made.Init(of, s.From, uint64(s.From))
	case CallNotify:
		(*p).Notify(of, s.Now, *s.Notice)
	case CallReceive:
		m, err := Decode(s.Msg)
		if err != nil {
			return err
		}
		(*p).Receive(of, s.Now, s.From, m)
	case CallHeard:
		(*p).Heard(of, s.Now, *s.Who)
	case CallLimit:
		(*p).Limit(of, *s.Who, int(s.Number))
	case CallBalance:
		(*p).Balance(of, s.Number)
	case CallNext:
		s.came((*p).Next(of, s.Now))
	}
	return nil
}

func (s *Step) came(a protocol.Action[Message]) {
	s.Came = &Came{Kind: a.Kind, At: a.At, To: a.To}
	if a.Msg.Letter != nil {
		s.Came.Msg = a.Msg.Append(nil)
		if a.Msg.Kind == Opened {
			s.Came.View = a.Msg.Base
		}
	}
}

// Tape is a process's part in the membership, whose steps are written down.
type Tape struct {
	State
	protocol *Protocol
	write    func(*Step) // nil: they are not
}

// NewTape returns the part of a process in its job's membership. write gets every step before
// the caller learns what came of it; nil: nothing is written.
func NewTape(cfg Config, self protocol.Rank, write func(*Step)) (*Tape, error) {
	p, err := New(cfg)
	if err != nil {
		return nil, err
	}
	t := &Tape{protocol: p, write: write}
	p.Init(&t.State, self, uint64(self))
	t.note(Step{Call: CallInit, Config: &cfg, From: self})
	return t, nil
}

func (t *Tape) note(s Step) {
	if t.write != nil {
		t.write(&s)
	}
}

// Notify is Protocol.Notify.
func (t *Tape) Notify(now protocol.Time, n protocol.Notice) {
	t.protocol.Notify(&t.State, now, n)
	t.note(Step{Call: CallNotify, Now: now, Notice: &n})
}

// Receive is Protocol.Receive.
func (t *Tape) Receive(now protocol.Time, from protocol.Rank, m Message) {
	if t.write != nil {
		t.note(Step{Call: CallReceive, Now: now, From: from, Msg: m.Append(nil)})
	}
	t.protocol.Receive(&t.State, now, from, m)
}

// Heard is Protocol.Heard.
func (t *Tape) Heard(now protocol.Time, m Member) {
	t.protocol.Heard(&t.State, now, m)
	t.note(Step{Call: CallHeard, Now: now, Who: &m})
}

// Limit is Protocol.Limit.
func (t *Tape) Limit(who Member, most int) {
	t.protocol.Limit(&t.State, who, most)
	t.note(Step{Call: CallLimit, Who: &who, Number: uint64(most)})
}

// Balance is Protocol.Balance.
func (t *Tape) Balance(epoch uint64) {
	t.protocol.Balance(&t.State, epoch)
	t.note(Step{Call: CallBalance, Number: epoch})
}

// Next is Protocol.Next.
func (t *Tape) Next(now protocol.Time) protocol.Action[Message] {
	a := t.protocol.Next(&t.State, now)
	if t.write != nil {
		s := Step{Call: CallNext, Now: now}
		s.came(a)
		t.write(&s)
	}
	return a
}

// Neighbours lists the processes that the next view will be exchanged with first: the children
// in the tree of this one, and those of the proposer's heir.
func (t *Tape) Neighbours() []protocol.Rank {
	return append(t.protocol.Children(&t.State), t.protocol.Heir(&t.State)...)
}
