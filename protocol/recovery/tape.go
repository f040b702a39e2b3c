package recovery

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Step is a call of a Machine that may change it, and what came of it. All steps of a machine,
// in order, say all that it has done: whoever takes them again finds the same.
type Step struct {
	Call    Call
	Config  *Config            `json:",omitempty"`
	From    *membership.Member `json:",omitempty"`
	Msg     *Message           `json:",omitempty"`
	View    *membership.View   `json:",omitempty"`
	Tasks   []protocol.Rank    `json:",omitempty"`
	Epoch   uint64             `json:",omitempty"`
	Balance int64              `json:",omitempty"`
	Key     *Key               `json:",omitempty"`
	Op      *Op                `json:",omitempty"`
	On      bool               `json:",omitempty"` // hold, stored or ended
	Why     string             `json:",omitempty"`

	Came Outcome
}

// Line is a step of one of a process's machines as it is written down: one line of JSON.
type Line struct {
	Who     membership.Member
	*Step                    // of its Machine
	Members *membership.Step `json:",omitempty"`
}

// Outcome is what came of a step.
type Outcome struct {
	Rings   [][]protocol.Rank `json:",omitempty"` // what Config.Ring said
	Nobodys []string          `json:",omitempty"` // what Config.Nobodys said
	Vote    Vote              `json:",omitempty"`
	Keys    []Key             `json:",omitempty"`
	Effects []Effect          `json:",omitempty"`
}

// Call names the method of a step.
type Call string

// The calls.
const (
	CallNew     Call = "new"
	CallOpened  Call = "opened"
	CallReceive Call = "receive"
	CallLose    Call = "lose"
	CallLogless Call = "logless"
	CallUnmoved Call = "unmoved"
	CallSave    Call = "save"
	CallUnsaved Call = "unsaved"
	CallResumed Call = "resumed"
	CallVote    Call = "vote"
	CallKept    Call = "kept"
	CallComing  Call = "coming"
	CallDrew    Call = "drew"
	CallOwes    Call = "owes"
	CallEffects Call = "effects"
)

// Take takes a step, and sets what comes of it. Of a CallNew, m is set.
func (s *Step) Take(m **Machine) {
	switch s.Call {
	case CallNew:
		*m = New(s.Config, *s.From)
	case CallOpened:
		(*m).Opened(s.View, s.On)
	case CallReceive:
		(*m).Receive(*s.From, *s.Msg)
	case CallLose:
		(*m).Lose(s.Why, s.Tasks...)
	case CallLogless:
		(*m).Logless()
	case CallUnmoved:
		(*m).Unmoved()
	case CallSave:
		(*m).Save(s.Tasks[0], s.Epoch, s.Balance)
	case CallUnsaved:
		(*m).Unsaved(s.Tasks[0])
	case CallResumed:
		(*m).Resumed(s.Tasks[0], s.Epoch)
	case CallVote:
		s.Came.Vote = (*m).Vote(s.Tasks[0], *s.Op, s.On)
	case CallKept:
		(*m).Kept(*s.Key, s.On)
	case CallComing:
		(*m).Coming(*s.From, *s.Key)
	case CallDrew:
		(*m).Drew(*s.Key)
	case CallOwes:
		s.Came.Keys = (*m).Owes(s.Tasks[0])
	case CallEffects:
		s.Came.Effects = (*m).Effects()
	}
}

// Tape is a Machine whose steps are written down.
type Tape struct {
	*Machine
	write func(*Step) // nil: they are not
	step  *Step       // that is under way
}

// NewTape returns the machine of a process, as New does. write gets every step before the
// caller learns what came of it; nil: nothing is written.
func NewTape(cfg *Config, self membership.Member, write func(*Step)) *Tape {
	if write == nil {
		return &Tape{Machine: New(cfg, self)}
	}
	t := &Tape{write: write}
	own := *cfg
	if cfg.Ring != nil {
		own.Ring = func(v *membership.View, self membership.Member) []protocol.Rank {
			all := cfg.Ring(v, self)
			t.step.Came.Rings = append(t.step.Came.Rings, slices.Clone(all))
			return all
		}
	}
	if cfg.Nobodys != nil {
		own.Nobodys = func(v *membership.View) string {
			why := cfg.Nobodys(v)
			t.step.Came.Nobodys = append(t.step.Came.Nobodys, why)
			return why
		}
	}
	t.take(&Step{Call: CallNew, Config: &own, From: new(self)})
	return t
}

func (t *Tape) take(s *Step) {
	t.step = s
	s.Take(&t.Machine)
	t.write(s)
}

// Opened is Machine.Opened, and so on for the others.
func (t *Tape) Opened(v *membership.View, hold bool) {
	if t.write == nil {
		t.Machine.Opened(v, hold)
		return
	}
	t.take(&Step{Call: CallOpened, View: v, On: hold})
}

func (t *Tape) Receive(from membership.Member, msg Message) {
	if t.write == nil {
		t.Machine.Receive(from, msg)
		return
	}
	t.take(&Step{Call: CallReceive, From: new(from), Msg: new(msg)})
}

func (t *Tape) Lose(why string, tasks ...protocol.Rank) {
	if t.write == nil {
		t.Machine.Lose(why, tasks...)
		return
	}
	t.take(&Step{Call: CallLose, Why: why, Tasks: tasks})
}

func (t *Tape) Logless() {
	if t.write == nil {
		t.Machine.Logless()
		return
	}
	t.take(&Step{Call: CallLogless})
}

func (t *Tape) Unmoved() {
	if t.write == nil {
		t.Machine.Unmoved()
		return
	}
	t.take(&Step{Call: CallUnmoved})
}

func (t *Tape) Save(number protocol.Rank, epoch uint64, balance int64) {
	if t.write == nil {
		t.Machine.Save(number, epoch, balance)
		return
	}
	t.take(&Step{Call: CallSave, Tasks: []protocol.Rank{number}, Epoch: epoch, Balance: balance})
}

func (t *Tape) Unsaved(number protocol.Rank) {
	if t.write == nil {
		t.Machine.Unsaved(number)
		return
	}
	t.take(&Step{Call: CallUnsaved, Tasks: []protocol.Rank{number}})
}

func (t *Tape) Resumed(number protocol.Rank, epoch uint64) {
	if t.write == nil {
		t.Machine.Resumed(number, epoch)
		return
	}
	t.take(&Step{Call: CallResumed, Tasks: []protocol.Rank{number}, Epoch: epoch})
}

func (t *Tape) Vote(number protocol.Rank, op Op, ended bool) Vote {
	if t.write == nil {
		return t.Machine.Vote(number, op, ended)
	}
	s := &Step{Call: CallVote, Tasks: []protocol.Rank{number}, Op: new(op), On: ended}
	t.take(s)
	return s.Came.Vote
}

func (t *Tape) Kept(k Key, stored bool) {
	if t.write == nil {
		t.Machine.Kept(k, stored)
		return
	}
	t.take(&Step{Call: CallKept, Key: new(k), On: stored})
}

func (t *Tape) Coming(from membership.Member, k Key) {
	if t.write == nil {
		t.Machine.Coming(from, k)
		return
	}
	t.take(&Step{Call: CallComing, From: new(from), Key: new(k)})
}

func (t *Tape) Drew(k Key) {
	if t.write == nil {
		t.Machine.Drew(k)
		return
	}
	t.take(&Step{Call: CallDrew, Key: new(k)})
}

func (t *Tape) Owes(to protocol.Rank) []Key {
	if t.write == nil {
		return t.Machine.Owes(to)
	}
	s := &Step{Call: CallOwes, Tasks: []protocol.Rank{to}}
	t.take(s)
	return s.Came.Keys
}

func (t *Tape) Effects() []Effect {
	if t.write == nil {
		return t.Machine.Effects()
	}
	s := &Step{Call: CallEffects}
	if s.Take(&t.Machine); len(s.Came.Effects) > 0 {
		t.write(s)
	}
	return s.Came.Effects
}
