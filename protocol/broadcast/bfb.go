// Buntinas' fault-tolerant broadcast (Corrected Gossip, §IV.B.2, BFB; Buntinas, IPDPS 2012): a tree with acknowledgements
// that is built anew, around dead processes, whenever one is found. It needs a detector that reports every death to
// every live process, at some time (protocol.Death), and none that did not happen.
//
// A message carries what its receiver is responsible for: the ranks from its own up to End. The receiver halves that
// range again and again and sends to the first process of each upper half that it does not know to be dead. It
// acknowledges when all that it sent to have, so an acknowledgement says that all live processes of the range have the
// message. A process that learns that one it waits for is dead reports that to its parent, which reports it to its own;
// the root then starts the next attempt. A process takes part in the latest attempt it has heard of and in no other.
//
// Why it ends. In each attempt at most one process sends to a given one, since ranges are split into disjoint parts. If a
// live process waits for a dead one, it will learn of the death; if it has learned of it before, it sends to the next one
// instead. So an attempt ends, and each that fails does so because some process learned of some death, which happens once
// for each of the two.
//
// Cost without failures: 2(P−1) messages, half of them acknowledgements, and about 2(2o+L)·⌈log₂ P⌉ steps; the halving
// keeps every tree within ⌈log₂ P⌉ levels, and P−1 messages down, whichever processes are dead. Each failed attempt costs
// at most that again. State: 4 bytes for each known death among the higher ranks.
//
// Survives any deaths at any moment but the root's, which is out of scope: the others then rest where they are, with the
// message or without. Delivery comes with the first message. The root is Done when all is acknowledged; another process
// never knows that no further attempt will come and rests Idle.

package broadcast

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// BFB is Buntinas' fault-tolerant broadcast.
type BFB struct {
	p, root Rank
}

// NewBFB makes the broadcast from root to p processes.
func NewBFB(p int, root Rank) (*BFB, error) {
	if p < 1 || p > 1<<31-1 {
		return nil, fmt.Errorf("bfb among %d processes; allowed: 1 to 2^31−1", p)
	}
	if root < 0 || int(root) >= p {
		return nil, fmt.Errorf("root %d; allowed: 0 to %d", root, p-1)
	}
	return &BFB{p: Rank(p), root: root}, nil
}

// Root returns the process that has the message.
func (b *BFB) Root() Rank { return b.root }

// BFBMessage is a message between the machines of a BFB.
type BFBMessage struct {
	Attempt uint32
	End     Rank        // Spread: the receiver is responsible for the ranks below End, counted from the root
	Kind    MessageKind // Spread or Ack
	Failed  bool        // Ack: the attempt has failed (NACK)
}

func (m BFBMessage) String() string {
	switch {
	case m.Kind == Spread:
		return fmt.Sprintf("spread %d to %d", m.Attempt, m.End)
	case m.Failed:
		return fmt.Sprintf("nack %d", m.Attempt)
	default:
		return fmt.Sprintf("ack %d", m.Attempt)
	}
}

// BFBState is one process's state. Ranks count from the root.
type BFBState struct {
	dead    []Rank // known dead among the higher ranks, in rising order
	self    Rank
	parent  Rank // the sender of the present attempt
	attempt uint32
	end     Rank // responsible for the ranks below
	left    Rank // of these, the ones below are not yet sent to
	// Bit k: the k-th part of the range was sent to and has not answered.
	waiting   uint32
	delivered bool
	failed    bool // the attempt has, and the parent does not know yet
	answered  bool // the parent has got its Ack or NACK
}

var _ protocol.Protocol[BFBState, BFBMessage] = (*BFB)(nil)

// Clone copies the state, which holds a slice, for drivers that keep copies.
func (s *BFBState) Clone() BFBState {
	c := *s
	c.dead = slices.Clone(s.dead)
	return c
}

// Fingerprint stands for the state, for drivers that compare.
func (s *BFBState) Fingerprint() [2]uint64 {
	flags := uint64(0)
	for _, flag := range []bool{s.delivered, s.failed, s.answered} {
		flags <<= 1
		if flag {
			flags |= 1
		}
	}
	print := [2]uint64{flags, ^flags}
	fold := func(x uint64) {
		print[0] = protocol.Mix(print[0], x)
		print[1] = protocol.Mix(print[1]^x, 1)
	}
	for _, x := range []Rank{s.self, s.parent, Rank(s.attempt), s.end, s.left, Rank(s.waiting)} {
		fold(uint64(uint32(x)))
	}
	for _, r := range s.dead {
		fold(uint64(r))
	}
	return print
}

// Init implements protocol.Protocol.
func (b *BFB) Init(s *BFBState, self Rank, _ uint64) {
	*s = BFBState{dead: s.dead[:0], self: b.fromRoot(self)}
	if s.self == 0 {
		s.begin(1, 0, b.p)
	}
}

// begin enters an attempt.
func (s *BFBState) begin(attempt uint32, parent, end Rank) {
	s.attempt, s.parent, s.end, s.left = attempt, parent, end, end
	s.waiting, s.failed, s.answered = 0, false, false
}

// Receive implements protocol.Protocol.
func (b *BFB) Receive(s *BFBState, _ Time, from Rank, m BFBMessage) {
	from = b.fromRoot(from)
	switch {
	case m.Kind == Spread:
		if m.Attempt > s.attempt {
			s.begin(m.Attempt, from, m.End)
		}
	case m.Attempt == s.attempt:
		k, _, ok := s.part(from)
		if !ok || s.waiting>>k&1 == 0 {
			return
		}
		if m.Failed {
			s.failed = true
		} else {
			s.waiting &^= 1 << k
		}
	}
}

// Notify implements protocol.Protocol: it takes Deaths.
func (b *BFB) Notify(s *BFBState, _ Time, n protocol.Notice) {
	if n.Kind != protocol.Death {
		return
	}
	r := b.fromRoot(n.Rank)
	if r <= s.self {
		return
	}
	i := len(s.dead)
	if i > 0 && r <= s.dead[i-1] { // a driver that reports many deaths mostly goes up
		var known bool
		if i, known = slices.BinarySearch(s.dead, r); known {
			return
		}
	}
	// The one sent to was the first of its part not known to be dead. If all
	// before r are now, r is it, or one of those was, whose death did this.
	if k, low, ok := s.part(r); ok && s.waiting>>k&1 != 0 && s.living(low, r) == r {
		s.failed = true
	}
	s.dead = slices.Insert(s.dead, i, r)
}

// Next implements protocol.Protocol.
func (b *BFB) Next(s *BFBState, _ Time) protocol.Action[BFBMessage] {
	switch {
	case s.attempt == 0:
		return protocol.Action[BFBMessage]{Kind: protocol.Idle}
	case !s.delivered:
		s.delivered = true
		return protocol.Action[BFBMessage]{Kind: protocol.Deliver}
	case s.failed && s.self == 0:
		s.begin(s.attempt+1, 0, b.p)
	case s.failed:
		s.begin(s.attempt, s.parent, s.self+1) // nothing more to do in it
		return b.answer(s, true)
	}
	if child, end := s.split(); child >= 0 {
		return protocol.Action[BFBMessage]{
			Kind: protocol.Send, To: b.toGroup(child), Msg: BFBMessage{Kind: Spread, Attempt: s.attempt, End: end},
		}
	}
	switch {
	case s.waiting != 0 || s.answered:
		return protocol.Action[BFBMessage]{Kind: protocol.Idle}
	case s.self == 0:
		return protocol.Action[BFBMessage]{Kind: protocol.Done}
	default:
		return b.answer(s, false)
	}
}

// answer reports to the parent how the attempt went.
func (b *BFB) answer(s *BFBState, failed bool) protocol.Action[BFBMessage] {
	s.answered = true
	return protocol.Action[BFBMessage]{
		Kind: protocol.Send, To: b.toGroup(s.parent), Msg: BFBMessage{Kind: Ack, Attempt: s.attempt, Failed: failed},
	}
}

// split gives away the next part of the range that may have a live process: to which child and up to which end. −1: all is
// given away.
func (s *BFBState) split() (child, end Rank) {
	for s.left > s.self+1 {
		low, end := middle(s.self, s.left), s.left
		s.left = low
		if child := s.living(low, end); child < end {
			k, _, _ := s.part(child)
			s.waiting |= 1 << k
			return child, end
		}
	}
	return -1, 0
}

// part returns which part of the range r lies in, and where that begins.
func (s *BFBState) part(r Rank) (k int, low Rank, ok bool) {
	if r <= s.self || r >= s.end {
		return 0, 0, false
	}
	for low = middle(s.self, s.end); r < low; k++ {
		low = middle(s.self, low)
	}
	return k, low, true
}

// middle is where the upper half of low … end−1 begins, the smaller one.
func middle(low, end Rank) Rank { return end - (end-low)/2 }

// living is the first of the ranks low … end−1 not known to be dead; end if
// there is none.
func (s *BFBState) living(low, end Rank) Rank {
	i, _ := slices.BinarySearch(s.dead, low)
	for ; low < end && i < len(s.dead) && s.dead[i] == low; i++ {
		low++
	}
	return low
}

// fromRoot translates a rank of the group to one counted from the root.
func (b *BFB) fromRoot(r Rank) Rank {
	if r -= b.root; r < 0 {
		r += b.p
	}
	return r
}

// toGroup is the reverse of fromRoot.
func (b *BFB) toGroup(r Rank) Rank {
	if r >= b.p-b.root {
		r -= b.p
	}
	return r + b.root
}
