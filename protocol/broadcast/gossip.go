// Dissemination by gossip (Corrected Gossip, §III.A and Algorithm 1, lines 1–6): a process that has the message sends it
// to one random other process after another, until the gossip time is over. About Σ_{t<T} c(t) messages; no process is
// certain to be reached, and no single death matters much.
//
// There are two ways to tell when it is over. With a common clock, when the
// time is Until. Without one, by counting rounds: a message carries the round
// it was sent in, and its receiver goes on from there, Hop rounds later
// (⌈L/o⌉+2 make the count follow LogP time; the prototype of Corrected Trees,
// §4.4, uses 1). Partners are drawn by (seed, round), so equal seeds give
// every broadcast the same partners, as §4.4 does to save connections.

package broadcast

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// Gossip disseminates to random partners. Exactly one of Rounds and Until is
// set.
type Gossip struct {
	Rounds uint16 // gossip by rounds: how many
	Hop    uint16 // gossip by rounds: how many pass while a message travels
	Until  Time   // gossip by clock: no send starts at Until or later

	p int // number of processes
}

// Fit implements Dissemination.
func (g *Gossip) Fit(p int) error {
	switch {
	case g.Rounds > 0 && g.Until > 0:
		return errors.New("gossip by rounds and by clock; allowed: one of them")
	case g.Until < 0:
		return fmt.Errorf("gossip until %d; allowed: 0 or later", g.Until)
	case g.Rounds > 0 && g.Hop == 0:
		return errors.New("gossip rounds with hop 0; allowed: 1 or more")
	}
	return fitOnce("gossip", &g.p, p)
}

// Color implements Dissemination.
func (g *Gossip) Color(s *Spreading, self Rank, round uint16) {
	if self != 0 {
		s.Next = int32(round) + int32(g.Hop)
	}
}

// Acknowledge implements Dissemination: no process acknowledges.
func (g *Gossip) Acknowledge(*Spreading, Rank, Rank) {}

// OnlyColors implements OnlyColors.
func (g *Gossip) OnlyColors() {}

// Next implements Dissemination.
func (g *Gossip) Next(s *Spreading, self Rank, now Time) protocol.Action[Message[None]] {
	over := now >= g.Until
	if g.Rounds > 0 {
		over = s.Next >= int32(g.Rounds)
	}
	if over || g.p < 2 {
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	}
	seed := uint64(s.Keep)<<32 | uint64(uint32(self))
	to := Rank(protocol.Below(protocol.Mix(seed, uint64(s.Next)), uint64(g.p-1)))
	if to >= self {
		to++ // any process but itself
	}
	round := uint16(s.Next)
	s.Next++
	return protocol.Action[Message[None]]{Kind: protocol.Send, To: to, Msg: Message[None]{Round: round}}
}
