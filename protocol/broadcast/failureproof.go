// Failure-proof correction (Corrected Gossip, §III.D and Algorithm 3): all live
// processes get the message or none does, for up to F deaths at any moment
// from the first send on and any number before.
//
// A corrector (the paper's g-node) sends as in checked correction, but its messages also name the correctors it knows
// behind it, so each learns the F+1 nearest on each side. Once it knows F on one side, it sends to the other side again
// from the start: these final messages name F+1 correctors, itself included, so that a process that gets one may rest,
// for one of them will live and go on. It stops on a side behind the (F+1)-th corrector there. A corrected process
// (c-node) rests once it knows F+1 correctors. A process that cannot learn of F+1, corrector or corrected, sends SOS to
// all others, and a process that gets SOS does the same.
//
// Readings of the paper. Line 25 stops past the (F+1)-th corrector ahead, not
// behind. Line 21 would freeze what is known once the final round begins, with
// F known where line 25 needs F+1: we keep learning. A corrector never counts
// itself. A process is a corrector or not once and for all, by what first
// brought it the message; only correctors are named.
//
// Cost: about twice the messages of checked correction around gaps; (P−1) from each process with SOS. The time-out only
// decides when a corrected process turns to SOS: too short a one costs messages, never the result. The message is
// delivered last, when the process has done its part: a delivery, even one by a process that dies afterwards, promises
// one everywhere, as long as what dead processes sent arrives. If their last messages may be lost, the survivors all
// deliver or none does.

package broadcast

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// FailuresMax is the largest F of failure-proof correction.
const FailuresMax = 7

// FailureProof is failure-proof correction.
type FailureProof struct {
	Ring
	F       int
	Timeout Time // how long a corrected process waits to learn of F+1 correctors
}

// Known holds the distances to the nearest known correctors on one side, in
// rising order; 0 is none.
type Known [FailuresMax + 1]int32

// Proving is one process's state in failure-proof correction.
type Proving struct {
	until   Time
	sent    [2]int32 // the farthest process sent to in this round, by side
	known   [2]Known // by side
	sos     int32    // SOS: sent this far, plus one; 0: no SOS
	final   [2]bool  // the final round of sends to a side has begun
	waiting bool
}

// Fit implements Correction.
func (c *FailureProof) Fit(p int) error {
	switch {
	case c.F < 0 || c.F > FailuresMax:
		return fmt.Errorf("failure-proof against %d failures; allowed: 0 to %d", c.F, FailuresMax)
	case c.Open:
		return errors.New("failure-proof correction on an open ring; allowed: closed")
	case c.Timeout < 0:
		return fmt.Errorf("time-out %d; allowed: 0 or more", c.Timeout)
	}
	return c.fitTwoSided(p)
}

// DeliversLast implements LateDelivery.
func (c *FailureProof) DeliversLast() {}

// Init implements Correction.
func (c *FailureProof) Init(*Proving, Rank) {}

// Receive implements Correction.
func (c *FailureProof) Receive(s *Proving, self Rank, _ Time, from Rank, m Message[Known]) {
	k, n := c.hear(s, self, from, m.Kind)
	if k == nil {
		return
	}
	for _, beyond := range m.Extra {
		if beyond > 0 {
			c.learn(k, c.past(n, beyond))
		}
	}
}

// hear notes a message but for its names: it returns how far the sender is, and what is known on its side; nil if names
// do not matter any more.
func (c *FailureProof) hear(s *Proving, self, from Rank, kind MessageKind) (k *Known, n int32) {
	side, n, ok := c.heard(self, from, kind)
	switch {
	case s.sos > 0:
		return nil, 0
	case !ok:
		*s = Proving{sos: 1}
		return nil, 0
	}
	k = &s.known[side]
	c.learn(k, n)
	return k, n
}

// past returns the distance of a process that is beyond farther away than another one at distance n.
func (c *FailureProof) past(n, beyond int32) int32 {
	sum := int(n) + int(beyond)
	if sum >= c.p {
		sum %= c.p
	}
	return int32(sum)
}

// learn adds a corrector, keeping the F+1 nearest. Distance 0 is the process
// itself.
func (c *FailureProof) learn(k *Known, n int32) {
	if n == 0 {
		return
	}
	for i := 0; i <= c.F; i++ {
		switch {
		case k[i] == n:
			return
		case k[i] == 0:
			k[i] = n
			return
		case k[i] > n:
			k[i], n = n, k[i]
		}
	}
}

// Next implements Correction.
func (c *FailureProof) Next(s *Proving, self Rank, now Time, corrected bool) protocol.Action[Message[Known]] {
	a := c.next(s, self, now, corrected)
	msg := Message[Known]{Kind: a.Msg.Kind}
	if k := s.behind(msg.Kind); k != nil {
		msg.Extra = *k
	}
	return protocol.Action[Message[Known]]{At: a.At, To: a.To, Kind: a.Kind, Msg: msg}
}

// behind returns what a message of this kind names: the correctors known on the side it comes from. SOS names none.
func (s *Proving) behind(kind MessageKind) *Known {
	side := Side(Right - kind)
	if side > ToRight {
		return nil
	}
	return &s.known[side]
}

// next is Next without the names in messages.
func (c *FailureProof) next(s *Proving, self Rank, now Time, corrected bool) protocol.Action[Message[None]] {
	switch {
	case s.sos > 0:
		return c.cry(s, self)
	case corrected:
		return c.rest(s, self, now)
	}
	c.finish(s, ToLeft)
	c.finish(s, ToRight)
	left, right := s.sent[ToLeft], s.sent[ToRight]
	goLeft, goRight := c.owes(s, ToLeft), c.owes(s, ToRight)
	switch {
	case !goLeft && !goRight:
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	case goLeft && (!goRight || left+int32(c.First) <= right): // First decides a tie
		return c.send(s, self, ToLeft)
	default:
		return c.send(s, self, ToRight)
	}
}

// finish begins the final round of sends to side d when F correctors are known
// on the other.
func (c *FailureProof) finish(s *Proving, d Side) {
	if !s.final[d] && (c.F == 0 || s.known[d.Other()][c.F-1] > 0) {
		s.final[d] = true
		s.sent[d] = 0
	}
}

// owes reports whether side d must still be sent to: as far as the (F+1)-th
// corrector, or until there is one.
func (c *FailureProof) owes(s *Proving, d Side) bool {
	last := s.known[d][c.F]
	return last == 0 || s.sent[d] < last
}

// send sends to the next process on side d.
func (c *FailureProof) send(s *Proving, self Rank, d Side) protocol.Action[Message[None]] {
	n := s.sent[d] + 1
	if int(n) == c.p { // once around without finding F+1
		*s = Proving{sos: 1}
		return c.cry(s, self)
	}
	s.sent[d] = n
	return c.correct(self, d, n)
}

// rest is a corrected process's part: wait until F+1 correctors are known.
func (c *FailureProof) rest(s *Proving, self Rank, now Time) protocol.Action[Message[None]] {
	if c.correctors(s) > c.F {
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	}
	if !s.waiting {
		s.waiting = true
		s.until = now + c.Timeout
	}
	if now < s.until {
		return protocol.Action[Message[None]]{Kind: protocol.Wait, At: s.until}
	}
	*s = Proving{sos: 1}
	return c.cry(s, self)
}

// correctors counts the different ones known; a distance to the left is P
// minus one to the right.
func (c *FailureProof) correctors(s *Proving) int {
	count := 0
	for _, l := range s.known[ToLeft] {
		if l > 0 {
			count++
		}
	}
next:
	for _, r := range s.known[ToRight] {
		if r == 0 {
			break
		}
		for _, l := range s.known[ToLeft] {
			if int(l)+int(r) == c.p {
				continue next
			}
		}
		count++
	}
	return count
}

// cry sends SOS to all others, one after the other.
func (c *FailureProof) cry(s *Proving, self Rank) protocol.Action[Message[None]] {
	if int(s.sos) >= c.p {
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	}
	to := c.at(self, ToRight, s.sos)
	s.sos++
	return protocol.Action[Message[None]]{Kind: protocol.Correct, To: to, Msg: Message[None]{Kind: SOS}}
}
