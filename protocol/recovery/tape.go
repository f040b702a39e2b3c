package recovery

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Tape is a Machine that records its calls, and before each what Config.Ring and Config.Nobodys have
// returned in it.
type Tape struct {
	*Machine
	note protocol.Note
}

// NewTape returns the machine of a process, as New does.
func NewTape(cfg *Config, self membership.Member, note protocol.Note) *Tape {
	own := *cfg
	if ring := cfg.Ring; ring != nil && note != nil {
		own.Ring = func(v *membership.View, self membership.Member) []protocol.Rank {
			return protocol.Get0(note, "Ring", func() []protocol.Rank { return ring(v, self) })
		}
	}
	if nobodys := cfg.Nobodys; nobodys != nil && note != nil {
		own.Nobodys = func(v *membership.View) string {
			return protocol.Get0(note, "Nobodys", func() string { return nobodys(v) })
		}
	}
	return &Tape{New(&own, self), note}
}

func (t *Tape) Opened(v *membership.View, hold bool) {
	protocol.Do2(t.note, "Opened", t.Machine.Opened, v, hold)
}

func (t *Tape) Receive(from membership.Member, msg Message) {
	protocol.Do2(t.note, "Receive", t.Machine.Receive, from, msg)
}

func (t *Tape) Lose(why string, tasks ...protocol.Rank) {
	protocol.Do2(t.note, "Lose", func(why string, tasks []protocol.Rank) { t.Machine.Lose(why, tasks...) }, why, tasks)
}

func (t *Tape) Save(number protocol.Rank, epoch uint64, balance int64) {
	protocol.Do3(t.note, "Save", t.Machine.Save, number, epoch, balance)
}

func (t *Tape) Resumed(number protocol.Rank, epoch uint64) {
	protocol.Do2(t.note, "Resumed", t.Machine.Resumed, number, epoch)
}

func (t *Tape) Vote(number protocol.Rank, op Op, ended bool) Vote {
	return protocol.Get3(t.note, "Vote", t.Machine.Vote, number, op, ended)
}

func (t *Tape) Coming(from membership.Member, k Key) {
	protocol.Do2(t.note, "Coming", t.Machine.Coming, from, k)
}

func (t *Tape) Owes(to protocol.Rank) []Key {
	return protocol.Get1(t.note, "Owes", t.Machine.Owes, to)
}

func (t *Tape) Over()    { protocol.Do0(t.note, "Over", t.Machine.Over) }
func (t *Tape) Logless() { protocol.Do0(t.note, "Logless", t.Machine.Logless) }
func (t *Tape) Unmoved() { protocol.Do0(t.note, "Unmoved", t.Machine.Unmoved) }
func (t *Tape) Unsaved(number protocol.Rank) {
	protocol.Do1(t.note, "Unsaved", t.Machine.Unsaved, number)
}
func (t *Tape) Kept(k Key, stored bool) { protocol.Do2(t.note, "Kept", t.Machine.Kept, k, stored) }
func (t *Tape) Drew(k Key)              { protocol.Do1(t.note, "Drew", t.Machine.Drew, k) }

// Effects is recorded if there are any.
func (t *Tape) Effects() []Effect {
	all := t.Machine.Effects()
	if t.note != nil && len(all) > 0 {
		t.note("Effects", all)
	}
	return all
}
