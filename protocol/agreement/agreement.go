// Package agreement lets processes agree on a value and on which of them have failed: every participant contributes, and
// all that return get the same result. Its API may change.
//
// Source: the thesis (Stengler, section 3.1) begins and ends every collective with an agreement: inputs are reduced to a
// coordinator, which decides and broadcasts. Its published relative is ERA, the early returning agreement of ULFM
// (Herault et al., Practical Scalable Consensus for Pseudo-Synchronous Distributed Systems, SC'15). ERA mends its tree
// while it runs and asks which processes may have returned; here the membership does that work (rules 2 and 6 of
// docs/design.md): whenever a view opens, the instance begins anew among the participants that are in it.
//
// In a view, contributions go up a binomial tree over the participants that are in it, in their order; the root decides
// when all have come, and the decision goes down the same tree. A participant that knows the decision returns at once,
// before it has passed it on (early returning), keeps it and serves on. In the next view participants that know a
// decision contribute that, and a decision that was contributed is decided again. Messages carry their view: those of an
// earlier one are dropped, those of a later one held.
//
// Cost: 2(n−1) messages and 2⌈log₂ n⌉ steps of 2o+L among n that are in the view,
// and the same again for every view that opens before the instance is over.
//
// Values are combined in one association, that of package collective: in the order of the participants in the view, 0
// with 1, 2 with 3, then the pairs. So the same contributors give the same bits in every attempt. Combining is Work,
// since it may be user code.
//
// # What it promises
//
// Validity: a decision is the combination of what exactly those participants contributed that were in the view in which
// it was decided; all others are in Failed. It is aborted, and has no value, only if one of those in the view voted so.
//
// Agreement: a participant that returns in view m returns what every participant in view m returned, in whatever view
// that was. So the live participants that are in the last view agree; only dead and excluded ones may have returned
// something else. A decision known only to a participant that dies before it has contributed it again is lost with it.
//
// Termination: if views open until all failures are excluded, every participant that is in the last of them and calls,
// returns once all of them have called.
//
// Proof. In a view only the root decides, once, when it has heard from all in it, and its decision goes down unchanged: a
// view makes one decision at most, and none if one was contributed. Claim: in view m no two decisions are known. Let them
// be made in a and in b, a < b ≤ m. A decision passes only between two participants that are in the same view; so it came
// from the root of a to one in m along a chain, and some participant in that chain had it in a view before b and was in b
// or a later view. No participant comes back into a view, so that one was in b, and contributed the decision there before
// the root decided. So b made none. Agreement follows: a participant that returned in a view before m and is in m keeps
// its decision. Termination: in a view that stays every participant sends one message up once those below have, and one
// down to each.
// # What may be forgotten, and when
//
// A decision must be kept while a participant may still need it: until it is known that all live participants have
// returned. That is known when a later instance among the same participants has been decided: all of them contributed to
// it, and they call one instance after the other. A Series forgets the decision then, and not before.
//
// # The driver's duties
//
//  1. Views come in the order of their numbers, which begin at 1; an incarnation that has left never comes back: a
//     process that returns under the same rank is no member to this machine.
//  2. The participants are the same list everywhere. They call the instances of one list one after the other.
//  3. A participant whose driver stops, for instance because there is no quorum, leaves the group: the others wait for
//     all that are in the view.
//  4. Bytes that are handed over are kept, not copied, and never written.
//  5. Every Work is answered, even if the decision has come meanwhile: a participant does nothing else before.
package agreement

import (
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Rank names a participant, in the driver's numbers: processes, or tasks.
type Rank = protocol.Rank

// Action is what a participant does next.
type Action = protocol.Action[Message]

// State is one participant's part in one instance.
type State struct {
	self         Rank
	participants []Rank
	value        []byte
	begun, abort bool    // has contributed; has voted to abort
	decision     Message // if Decided is not 0
	delivered    bool

	// The attempt in the present view.
	view    uint64
	live    []Rank    // participants that are in it, in order
	at      int       // our place in it; −1: none
	came    []Message // from children, by number; Kind is 0 where there is none
	sum     []byte    // our value, combined with those of the first folded children
	folded  int
	working bool // a Work of this attempt is not done
	raised  bool // Up is sent
	settled bool // the root has decided, or Down has come
	told    int  // children to which Down is sent

	stale int // Works of earlier attempts that are not done
	held  []held
}

// held is a message of a view to come.
type held struct {
	from Rank
	msg  Message
}

// Init makes s the initial state of participant self. Nothing happens before the first NewView.
func (s *State) Init(self Rank, participants []Rank) {
	*s = State{self: self, participants: participants, at: -1}
}

// Begin contributes value: the user has called.
func (s *State) Begin(value []byte) {
	if !s.begun {
		s.begun, s.value, s.sum = true, value, value
	}
}

// Cancel votes to abort, and contributes if Begin has not. It is too late for a view in which this participant's
// contribution has been sent.
func (s *State) Cancel() { s.begun, s.abort = true, true }

// NewView says that a view is open, and which processes are in it, participants and others.
func (s *State) NewView(number uint64, members []Rank) {
	if number <= s.view {
		return
	}
	if s.working {
		s.stale++
	}
	in := make(map[Rank]bool, len(members))
	for _, r := range members {
		in[r] = true
	}
	s.view, s.live = number, nil
	for _, r := range s.participants {
		if in[r] {
			s.live = append(s.live, r)
		}
	}
	s.at = slices.Index(s.live, s.self)
	s.came, s.sum, s.folded = make([]Message, s.children()), s.value, 0
	s.working, s.raised, s.settled, s.told = false, false, false, 0
	before := s.held
	s.held = nil
	for _, h := range before {
		s.Receive(h.from, h.msg)
	}
}

// Receive takes a message that arrived. It ignores what no participant would send in this view.
func (s *State) Receive(from Rank, m Message) {
	switch {
	case m.View < s.view:
		return
	case m.View > s.view:
		s.hold(from, m)
		return
	case m.Kind == Up:
		k := s.childOf(from)
		if k < 0 || s.came[k].Kind != 0 {
			return
		}
		s.came[k] = m
	case m.Kind == Down && m.Decided != 0 && s.at > 0 && from == s.parent():
		s.settled = true
	default:
		return
	}
	if m.Decided != 0 && s.decision.Decided == 0 {
		s.decision = m
	}
}

// hold keeps a message of a view to come: the latest of every sender, since no other participant sends two in one view.
func (s *State) hold(from Rank, m Message) {
	i := slices.IndexFunc(s.held, func(h held) bool { return h.from == from })
	switch {
	case i < 0:
		s.held = append(slices.Clip(s.held), held{from, m})
	case s.held[i].msg.View < m.View:
		s.held = slices.Clone(s.held)
		s.held[i].msg = m
	}
}

// Next returns what the participant does now. Deliver carries the decision; its View is the one in which it is returned.
// Work is to combine the Operands, and carries the second as it came; Folded, or Fold, answers it.
func (s *State) Next() Action {
	switch {
	case s.decision.Decided != 0 && !s.delivered:
		s.delivered = true
		return Action{Kind: protocol.Deliver, Msg: s.decided(Down)}
	case s.at < 0 || s.working:
		return Action{Kind: protocol.Idle}
	case s.settled:
		return s.down()
	case s.raised || !s.begun:
		return Action{Kind: protocol.Idle}
	}
	return s.up()
}

// up combines what has come, and passes it on when all has.
func (s *State) up() Action {
	void := s.decision.Decided != 0 || s.aborted() // no value is needed
	switch {
	case !void && s.folded < len(s.came) && s.came[s.folded].Kind != 0:
		s.working = true
		return Action{Kind: protocol.Work, Msg: s.came[s.folded]}
	case slices.ContainsFunc(s.came, func(m Message) bool { return m.Kind == 0 }):
		return Action{Kind: protocol.Idle}
	case s.at == 0:
		s.decide()
		return s.Next()
	}
	s.raised = true
	return Action{Kind: protocol.Send, To: s.parent(), Msg: s.contribution()}
}

// contribution returns what goes up from here.
func (s *State) contribution() Message {
	switch {
	case s.decision.Decided != 0:
		return s.decided(Up)
	case s.aborted():
		return Message{Kind: Up, View: s.view, Abort: true}
	}
	return Message{Kind: Up, View: s.view, Value: s.sum}
}

// decide lets the root decide: what was decided before is decided again.
func (s *State) decide() {
	s.settled = true
	if s.decision.Decided != 0 {
		return
	}
	s.decision = s.contribution()
	s.decision.Decided, s.decision.Failed = s.view, s.missing()
}

// missing lists the participants that are not in the view.
func (s *State) missing() (failed []Rank) {
	live := s.live
	for _, r := range s.participants {
		if len(live) > 0 && live[0] == r {
			live = live[1:]
			continue
		}
		failed = append(failed, r)
	}
	return failed
}

// aborted reports whether any participant from here downwards has voted to abort, as far as is known.
func (s *State) aborted() bool {
	return s.abort || slices.ContainsFunc(s.came, func(m Message) bool { return m.Abort })
}

// down sends the decision to the children, those with most below them first.
func (s *State) down() Action {
	if s.told == len(s.came) {
		return Action{Kind: protocol.Idle}
	}
	s.told++
	return Action{Kind: protocol.Send, To: s.child(len(s.came) - s.told), Msg: s.decided(Down)}
}

// decided returns the decision as a message of this view.
func (s *State) decided(kind Kind) Message {
	m := s.decision
	m.Kind, m.View = kind, s.view
	return m
}

// Operands returns what the latest Work is to combine, in this order.
func (s *State) Operands() (left, right []byte) {
	if !s.working {
		return nil, nil
	}
	return s.sum, s.came[s.folded].Value
}

// Folded says that the oldest open Work is done, with its result. If a view has opened since, the result is of no use.
func (s *State) Folded(value []byte) {
	switch {
	case s.stale > 0:
		s.stale--
	case s.working:
		s.working, s.sum = false, value
		s.folded++
	}
}

// Fold does the oldest open Work here and now, with a function that may run in a
// step.
func (s *State) Fold(f func(left, right []byte) []byte) {
	var value []byte
	if s.stale == 0 && s.working {
		value = f(s.Operands())
	}
	s.Folded(value)
}

// Decision returns what was decided, if this participant knows it.
func (s *State) Decision() (m Message, known bool) { return s.decision, s.decision.Decided != 0 }

// Awaits lists the participants whose messages this one needs before it returns; none if it has not called or has
// returned. A caller that follows the lists of live participants comes to those that have not called or are dead.
func (s *State) Awaits() (ranks []Rank) {
	switch {
	case !s.begun || s.at < 0 || s.decision.Decided != 0:
		return nil
	case s.raised:
		return []Rank{s.parent()}
	}
	for k, m := range s.came {
		if m.Kind == 0 {
			ranks = append(ranks, s.child(k))
		}
	}
	return ranks
}

// The tree is that of the canonical association: the one at place i of live has those at i+1, i+2, i+4 … as children, as
// far as the block of 2^k that begins with i goes.

// children returns their number, at most 31.
func (s *State) children() int {
	switch {
	case s.at < 0:
		return 0
	case s.at == 0:
		return bits.Len(uint(len(s.live) - 1))
	}
	return min(bits.TrailingZeros(uint(s.at)), bits.Len(uint(len(s.live)-1-s.at)))
}

func (s *State) child(k int) Rank { return s.live[s.at+1<<k] }

// childOf returns the number of a child; −1: it is none.
func (s *State) childOf(r Rank) int {
	for k := range s.came {
		if s.child(k) == r {
			return k
		}
	}
	return -1
}

func (s *State) parent() Rank { return s.live[s.at&(s.at-1)] }
