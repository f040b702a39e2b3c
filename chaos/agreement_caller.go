package chaos

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
	"github.com/coppice-go/coppice/protocol/group"
	"github.com/coppice-go/coppice/protocol/membership"
)

// The processes of an Agreement: a group, and a user who calls one instance after
// the other.

// InstancesMax is the largest number of agreements.
const InstancesMax = 60

// call marks the notice that has the user call an instance; without it, Begin has
// the process join.
const call = 1 << 32

// callerState is that of one process.
type callerState struct {
	group    group.State
	called   uint64 // the latest instance that the user wants to have called
	returned uint64 // the latest from which it has returned
	given    uint64 // bit k: the user has given up instance k before calling it
	works    int    // Works that are not done
	leaves   int    // of them those up to its last wish; 0: that is done, or it has none
	left     bool
}

// Clone returns a copy that shares nothing that changes.
func (s *callerState) Clone() callerState {
	c := *s
	c.group = s.group.Clone()
	return c
}

// Fingerprint stands for the state.
func (s *callerState) Fingerprint() [2]uint64 {
	f := s.group.Fingerprint()
	p := fingerprint{f[0], f[1]}.with(s.called<<32 | s.returned).with(s.given).with(uint64(s.works)<<32 | uint64(s.leaves))
	if s.left {
		p = p.with(1)
	}
	return [2]uint64{p.a, p.b}
}

// caller is the protocol: that of the group, and what its users do.
type caller struct {
	group      *group.Group
	membership *membership.Protocol
}

// Init implements protocol.Protocol.
func (c caller) Init(s *callerState, self protocol.Rank, seed uint64) {
	*s = callerState{}
	c.group.Init(&s.group, self, seed)
}

// Receive implements protocol.Protocol.
func (c caller) Receive(s *callerState, now protocol.Time, from protocol.Rank, f group.Frame) {
	c.group.Receive(&s.group, now, from, f)
}

// Notify implements protocol.Protocol. What the user wants is kept until it has
// returned from what comes before.
func (c caller) Notify(s *callerState, now protocol.Time, n protocol.Notice) {
	switch {
	case n.Kind == protocol.WorkDone && s.worked():
	case n.Kind == protocol.Begin && n.Value&call == 0:
		c.membership.Notify(s.group.Members(), now, n)
	case n.Kind == protocol.Begin:
		s.called = n.Value &^ call
		c.begin(s, now)
	case n.Kind == protocol.Cancel && n.Value <= s.returned:
	case n.Kind == protocol.Cancel && !slices.Contains(s.group.Running(), n.Value):
		s.given |= 1 << n.Value
	default:
		c.group.Notify(&s.group, now, n)
	}
}

// begin calls the next instance, if the user wants to.
func (c caller) begin(s *callerState, now protocol.Time) {
	op := s.returned + 1
	if s.called < op {
		return
	}
	c.group.Notify(&s.group, now, protocol.Notice{Kind: protocol.Begin, Value: op})
	if s.given>>op&1 == 1 {
		c.group.Notify(&s.group, now, protocol.Notice{Kind: protocol.Cancel, Value: op})
	}
}

// worked tells whether the Work that is done now is the last wish.
func (s *callerState) worked() bool {
	s.works--
	if s.leaves == 0 {
		return false
	}
	s.leaves--
	return s.leaves == 0
}

// Next implements protocol.Protocol. When an instance returns, the one before it
// is retired, and the next one called. A process for which the group has ended
// exits, as real ones do: it wishes itself dead.
func (c caller) Next(s *callerState, now protocol.Time) protocol.Action[group.Frame] {
	if s.group.Over() && !s.left {
		s.left = true
		s.works++
		s.leaves = s.works
		exit := &membership.Letter{Kind: membership.Fence, Who: s.group.Members().Self()}
		return protocol.Action[group.Frame]{Kind: protocol.Work, Msg: group.Frame{Letter: memberMessage{Letter: exit}}}
	}
	a := c.group.Next(&s.group, now)
	switch {
	case a.Kind == protocol.Work:
		s.works++
	case a.Kind == protocol.Deliver && a.Msg.Op != 0:
		s.returned = a.Msg.Op
		c.group.Notify(&s.group, now, protocol.Notice{Kind: protocol.Cancel, Value: s.returned - 1})
		c.begin(s, now)
	}
	return a
}

// agreeing is a process's part in an instance, as an operation of a group. Cancel
// after it has returned retires it.
type agreeing struct {
	agreement.State
	returned bool
}

// Receive implements group.Operation.
func (x *agreeing) Receive(_ protocol.Time, from protocol.Rank, b group.Body) {
	x.State.Receive(from, b.(agreement.Message))
}

// Notify implements group.Operation.
func (x *agreeing) Notify(_ protocol.Time, n protocol.Notice) {
	switch {
	case n.Kind == protocol.WorkDone:
		x.Fold(combine)
	case n.Kind == protocol.Cancel && x.returned:
		x.Retire()
	case n.Kind == protocol.Cancel:
		x.Cancel()
	}
}

// NewView implements group.Operation.
func (x *agreeing) NewView(_ protocol.Time, v *membership.View) {
	x.State.NewView(v.Number, firstLives(v))
}

// Next implements group.Operation.
func (x *agreeing) Next(protocol.Time) protocol.Action[group.Body] {
	a := x.State.Next()
	x.returned = x.returned || a.Kind == protocol.Deliver
	return protocol.Action[group.Body]{Kind: a.Kind, At: a.At, To: a.To, Msg: a.Msg}
}

// Clone implements group.Operation.
func (x *agreeing) Clone() group.Operation { return &agreeing{x.State.Clone(), x.returned} }

// firstLives lists the members of a view that are in their first life.
func firstLives(v *membership.View) (ranks []protocol.Rank) {
	for _, m := range v.Members {
		if m.Incarnation == 1 {
			ranks = append(ranks, m.ID)
		}
	}
	return ranks
}

// What is contributed, and how it is combined, shows who contributed and in which
// association.

func contribution(op uint64, r protocol.Rank) []byte { return fmt.Appendf(nil, "%d.%d", op, r) }

func combine(left, right []byte) []byte { return fmt.Appendf(nil, "(%s %s)", left, right) }

// combined is what the ranks contribute, in the canonical association.
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
