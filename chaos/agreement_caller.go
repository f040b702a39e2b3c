package chaos

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
	"github.com/coppice-go/coppice/protocol/membership"
)

// The processes of an Agreement: each is a member of a group, and has a user that calls one instance after
// the other.

// InstancesMax is the largest number of agreements.
const InstancesMax = 60

// call marks a Begin notice that makes the user call an instance; a Begin without it makes the process join.
const call = 1 << 32

// callerMessage is a message of the membership or, if it has a number, of an agreement.
type callerMessage struct {
	Letter memberMessage
	Number uint64
	Body   agreement.Message
}

// Fingerprint implements Fingerprinter.
func (m callerMessage) Fingerprint() [2]uint64 {
	p := printOf(&m.Letter).with(m.Number)
	if m.Number > 0 {
		p = p.and(printOf(&m.Body))
	}
	return [2]uint64{p.a, p.b}
}

func (m callerMessage) String() string {
	if m.Number == 0 {
		return m.Letter.String()
	}
	return fmt.Sprintf("%v of agreement %d", m.Body, m.Number)
}

// callerState is the state of one process.
type callerState struct {
	self     protocol.Rank
	members  membership.State
	series   agreement.Series[struct{}]
	over     bool   // excluded, or the group has no quorum
	left     bool   // the process has exited
	wanted   uint64 // the latest instance that the user wants to have called
	returned uint64 // the latest from which it has returned
	given    uint64 // bit k: the user votes to abort instance k
	works    []uint64
}

// Entries of callerState.works that are not numbers of instances.
const (
	workOfMembers = 0
	workOfExit    = InstancesMax + 1
)

// Clone returns a copy that shares nothing that changes.
func (s *callerState) Clone() callerState {
	c := *s
	c.members, c.series, c.works = s.members.Clone(), s.series.Clone(), slices.Clone(s.works)
	return c
}

// Fingerprint implements Fingerprinter.
func (s *callerState) Fingerprint() [2]uint64 {
	p := printOf(&s.members).and(printOf(&s.series)).with(s.wanted<<32 | s.returned).with(s.given)
	for _, of := range s.works {
		p = p.with(of)
	}
	switch {
	case s.left:
		p = p.with(2)
	case s.over:
		p = p.with(1)
	}
	return [2]uint64{p.a, p.b}
}

// caller is the protocol of an Agreement's processes.
type caller struct {
	membership   *membership.Protocol
	participants []protocol.Rank
}

// Init implements protocol.Protocol.
func (c caller) Init(s *callerState, self protocol.Rank, seed uint64) {
	*s = callerState{self: self}
	c.membership.Init(&s.members, self, seed)
	s.series.Init(self, c.participants, InstancesMax)
	if v := s.members.View(); v != nil {
		s.series.NewView(v.Number, firstLives(v))
	}
}

// Receive implements protocol.Protocol.
func (c caller) Receive(s *callerState, now protocol.Time, from protocol.Rank, m callerMessage) {
	if m.Number == 0 {
		c.membership.Receive(&s.members, now, from, m.Letter)
	} else if i := s.series.Hear(m.Number); i != nil {
		i.Receive(from, m.Body)
	}
}

// Notify implements protocol.Protocol. It keeps what the user wants until the user has returned from the
// instances before.
func (c caller) Notify(s *callerState, now protocol.Time, n protocol.Notice) {
	switch {
	case n.Kind == protocol.WorkDone:
		c.worked(s, now, n)
	case n.Kind == protocol.Begin && n.Value&call != 0:
		s.wanted = n.Value &^ call
		s.call()
	case n.Kind == protocol.Cancel:
		s.given |= 1 << n.Value
		if n.Value > s.returned && n.Value == s.series.Called() {
			s.series.Find(n.Value).Cancel()
		}
	default:
		c.membership.Notify(&s.members, now, n)
	}
}

// call calls the next instance, if the user wants to and has returned from the one before.
func (s *callerState) call() {
	op := s.returned + 1
	if s.over || s.wanted < op || s.series.Called() >= op {
		return
	}
	i := s.series.Call()
	i.Begin(contribution(op, s.self))
	if s.given>>op&1 == 1 {
		i.Cancel()
	}
}

// worked handles the notice that the oldest Work is done.
func (c caller) worked(s *callerState, now protocol.Time, n protocol.Notice) {
	of := s.works[0]
	s.works = s.works[1:]
	switch of {
	case workOfExit:
	case workOfMembers:
		c.membership.Notify(&s.members, now, n)
	default:
		if i := s.series.Find(of); i != nil {
			i.Fold(combine)
		}
	}
}

// Next implements protocol.Protocol. A process for which the group has ended exits, as real ones do: it asks
// to be killed.
func (c caller) Next(s *callerState, now protocol.Time) protocol.Action[callerMessage] {
	if s.over && !s.left {
		s.left = true
		exit := &membership.Letter{Kind: membership.Fence, Who: s.members.Self()}
		return s.work(workOfExit, callerMessage{Letter: memberMessage{Letter: exit}})
	}
	a := c.membership.Next(&s.members, now)
	m := callerMessage{Letter: a.Msg}
	switch a.Kind {
	case protocol.Work:
		return s.work(workOfMembers, m)
	case protocol.Deliver:
		s.news(a.Msg)
	case protocol.Idle, protocol.Wait:
		if b := s.agree(); b.Kind != protocol.Idle {
			return b
		}
	}
	return protocol.Action[callerMessage]{Kind: a.Kind, At: a.At, To: a.To, Msg: m}
}

func (s *callerState) work(of uint64, m callerMessage) protocol.Action[callerMessage] {
	s.works = append(slices.Clip(s.works), of)
	return protocol.Action[callerMessage]{Kind: protocol.Work, Msg: m}
}

// agree takes the next step of any agreement. After one returns, the user calls the next.
func (s *callerState) agree() protocol.Action[callerMessage] {
	for _, i := range s.series.Open() {
		if s.over {
			break
		}
		a := s.series.Next(i)
		m := callerMessage{Number: i.Number, Body: a.Msg}
		switch a.Kind {
		case protocol.Idle:
			continue
		case protocol.Work:
			return s.work(i.Number, m)
		case protocol.Deliver:
			s.returned = i.Number
			s.call()
		}
		return protocol.Action[callerMessage]{Kind: a.Kind, To: a.To, Msg: m}
	}
	return protocol.Action[callerMessage]{Kind: protocol.Idle}
}

// news handles the membership's report that a view is open, or that there will be none.
func (s *callerState) news(m memberMessage) {
	switch m.Kind {
	case membership.Opened:
		s.series.NewView(m.Base.Number, firstLives(m.Base))
	case membership.Excluded, membership.NoQuorum:
		s.over = true
	}
}

// firstLives lists the members of a view that are in their first life.
func firstLives(v *membership.View) (ranks []protocol.Rank) {
	for _, m := range v.Members {
		if m.Incarnation == 1 {
			ranks = append(ranks, m.ID)
		}
	}
	return ranks
}

// A contribution shows which process made it, and a combination shows in which association it was made.

func contribution(op uint64, r protocol.Rank) []byte { return fmt.Appendf(nil, "%d.%d", op, r) }

func combine(left, right []byte) []byte { return fmt.Appendf(nil, "(%s %s)", left, right) }

// combined returns the contributions of the ranks, combined in the canonical association.
func combined(op uint64, ranks []protocol.Rank) string {
	if len(ranks) == 1 {
		return string(contribution(op, ranks[0]))
	}
	half := 1
	for 2*half < len(ranks) {
		half *= 2
	}
	return "(" + combined(op, ranks[:half]) + " " + combined(op, ranks[half:]) + ")"
}
