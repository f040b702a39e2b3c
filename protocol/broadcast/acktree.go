// Dissemination along a tree with acknowledgements (Corrected Trees, §4.1; the scheme of Buntinas and of most
// fault-tolerant broadcasts): after its sends a process waits for its children's acknowledgements, then sends its own to
// its parent. 2(P−1) messages, about twice the tree's latency. The root learns whether all processes have the message; a
// dead process makes all its ancestors wait without end, which a detector would have to cure.

package broadcast

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/topology"
)

// AckTree disseminates along a tree rooted at rank 0 and acknowledges back up.
type AckTree struct{ Tree topology.Tree }

// acknowledged is the value of Spreading.Next once the process's own acknowledgement is out.
const acknowledged = -1

// Fit implements Dissemination.
func (t *AckTree) Fit(p int) error { return (*Tree)(t).Fit(p) }

// Color implements Dissemination. From now on Keep counts the acknowledgements
// that are missing.
func (t *AckTree) Color(s *Spreading, _ Rank, _ uint16) { s.Keep = 0 }

// Acknowledge implements Dissemination. An acknowledgement may overtake the sends
// to later children.
func (t *AckTree) Acknowledge(s *Spreading, _, _ Rank) { s.Keep-- }

// Next implements Dissemination.
func (t *AckTree) Next(s *Spreading, self Rank, now Time) protocol.Action[Message[None]] {
	if s.Next == acknowledged {
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	}
	if a := (*Tree)(t).Next(s, self, now); a.Kind == protocol.Send {
		s.Keep++
		return a
	}
	if s.Keep > 0 {
		return protocol.Action[Message[None]]{Kind: protocol.Idle}
	}
	s.Next = acknowledged
	if self == 0 {
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	}
	parent := t.Tree.Parent(int(self))
	return protocol.Action[Message[None]]{Kind: protocol.Send, To: Rank(parent), Msg: Message[None]{Kind: Ack}}
}
