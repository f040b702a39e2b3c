// Dissemination over the binomial graph (Corrected Gossip, §IV.B.3, BIG; the graph is Angskun, Bosilca, Dongarra's, ISPA
// 2007): a process that gets the message for the first time sends it to all its neighbours p + 2^x mod P. Many paths lead
// to every process and share no other process, so no correction is needed.
//
// A process that got the message over the edge x goes on with x+1, x+2, … and ends with x. The first messages then run
// along a binomial tree, and every process has the message after (2o+L)·⌈log₂ P⌉, which the paper supposes. If all began
// with x = 0, the way to the farthest process would wait at each hop for all the lower edges.
//
// Cost: P·⌈log₂ P⌉ messages. Survives any ⌈log₂ P⌉−1 deaths at any moment, also
// if P is no power of two (every set of dead was tried up to P = 24, disjoint
// paths were counted up to P = 700): all live processes get the message. If the
// root is among those that die, all live ones get it or none.

package broadcast

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/topology"
)

// BIG disseminates over the binomial graph.
type BIG struct{ graph topology.BinomialGraph }

// Fit implements Dissemination.
func (b *BIG) Fit(p int) error { return fitOnce("binomial graph", (*int)(&b.graph), p) }

// Color implements Dissemination. The round of a message is its edge; from now
// on Keep is the first edge to send over.
func (b *BIG) Color(s *Spreading, self Rank, round uint16) {
	s.Keep = 0
	if self != 0 && round != OverRound {
		s.Keep = uint32(round) + 1
	}
}

// Acknowledge implements Dissemination: no process acknowledges.
func (b *BIG) Acknowledge(*Spreading, Rank, Rank) {}

// OnlyColors implements OnlyColors.
func (b *BIG) OnlyColors() {}

// Next implements Dissemination.
func (b *BIG) Next(s *Spreading, self Rank, _ Time) protocol.Action[Message[None]] {
	degree := b.graph.Degree()
	if int(s.Next) >= degree {
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	}
	x := (int(s.Keep) + int(s.Next)) % degree
	s.Next++
	return protocol.Action[Message[None]]{
		Kind: protocol.Send, To: Rank(b.graph.Out(int(self), x)), Msg: Message[None]{Round: uint16(x)},
	}
}
