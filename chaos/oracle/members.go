package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

var errTwice = errors.New("a process begins twice, or has not begun")

// members is a process's part in the membership.
type members struct {
	protocol *membership.Protocol
	state    membership.State
	sent     map[protocol.Rank][][]byte // by receiver: all letters
	read     map[membership.Member]int  // by receiver: how many of them it is past
	opened   []byte                     // the view that it opened last
}

// checkMembers takes a step again.
func (c *checker) checkMembers(q *life, who membership.Member, s membership.Step) error {
	if (q.protocol == nil) != (s.Call == membership.CallInit) {
		return errTwice
	}
	if s.Call == membership.CallReceive {
		if err := c.letter(who, &s); err != nil {
			return err
		}
	}
	want := s.Came
	s.Came = nil
	if err := s.Take(&q.protocol, &q.state); err != nil {
		return err
	}
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(s.Came)
	if !bytes.Equal(a, b) {
		return fmt.Errorf("what came of it was %s; the machine says %s", a, b)
	}
	if s.Came == nil {
		return nil
	}
	switch s.Came.Kind {
	case protocol.Send:
		if q.sent == nil {
			q.sent, q.read = map[protocol.Rank][][]byte{}, map[membership.Member]int{}
		}
		q.sent[s.Came.To] = append(q.sent[s.Came.To], s.Came.Msg)
	case protocol.Deliver:
		q.opened, _ = json.Marshal(s.Came.View)
	}
	return nil
}

// letter finds a letter among those that were sent to a process, behind the one that came before
// it. Those between may be lost: nothing is sent to a life that has ended, or has not begun.
func (c *checker) letter(at membership.Member, s *membership.Step) error {
	m, err := membership.Decode(s.Msg)
	if err != nil || m.Kind == membership.Will {
		return err
	}
	from := membership.Member{ID: s.From, Incarnation: m.From}
	q := c.lives[from]
	if q == nil {
		return fmt.Errorf("%v comes from process %v, which has not begun", m, from)
	}
	n := q.read[at]
	i := slices.IndexFunc(q.sent[at.ID][n:], func(b []byte) bool { return bytes.Equal(b, s.Msg) })
	if i < 0 {
		return fmt.Errorf("%v comes from process %v, which has not sent it, or before what came already", m, from)
	}
	q.read[at] = n + i + 1
	c.Letters++
	return nil
}
