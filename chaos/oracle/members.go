package oracle

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// members is a process's part in the membership.
type members struct {
	*membership.Tape
	*life
	sent   map[protocol.Rank][][]byte // by receiver: all letters
	read   map[membership.Member]int  // by receiver: how many of them it has read or skipped
	opened []byte                     // the latest view that it opened
}

// Membership begins the machine.
func (q *life) Membership(cfg membership.Config, self protocol.Rank) *members {
	tape, err := membership.NewTape(cfg, self, nil)
	if err != nil || q.members != nil {
		q.c.fail("a process begins twice, or wrongly: %v", err)
	}
	q.members = &members{Tape: tape, life: q, sent: map[protocol.Rank][][]byte{}, read: map[membership.Member]int{}}
	return q.members
}

// Receive finds a letter among those sent to this process, after the letter received before. Letters between
// the two may be lost: nothing reaches a life that has ended, or has not begun.
func (m *members) Receive(now protocol.Time, by protocol.Rank, msg membership.Message) {
	switch msg.Kind {
	case membership.Will, membership.Denied, membership.NoArbiter:
	case membership.Granted:
		if named, ok := m.c.named[msg.Number]; ok && named != m.who {
			m.c.fail("two processes are named for view %d: %v and %v", msg.Number, named, m.who)
		}
		m.c.named[msg.Number] = m.who
	default:
		who := membership.Member{ID: by, Incarnation: msg.From}
		from := m.c.lives[who]
		if from == nil || from.members == nil {
			m.c.fail("%v comes from process %v, which has not begun", msg, who)
			return
		}
		n, text := from.members.read[m.who], msg.Append(nil)
		i := slices.IndexFunc(from.members.sent[m.who.ID][n:], func(b []byte) bool { return bytes.Equal(b, text) })
		if i < 0 {
			m.c.fail("%v comes from process %v, which has not sent it, or before what came already", msg, who)
		}
		from.members.read[m.who] = n + i + 1
		m.c.Letters++
	}
	m.Tape.Receive(now, by, msg)
}

// Next records what is sent, and the view that is opened.
func (m *members) Next(now protocol.Time) protocol.Action[membership.Message] {
	a := m.Tape.Next(now)
	switch a.Kind {
	case protocol.Send:
		m.sent[a.To] = append(m.sent[a.To], a.Msg.Append(nil))
	case protocol.Deliver:
		if a.Msg.Kind == membership.Opened {
			m.opened, _ = json.Marshal(a.Msg.Base)
		}
	}
	return a
}
