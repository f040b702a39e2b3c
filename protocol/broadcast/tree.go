// Dissemination along a tree (Corrected Trees, §3.2): a process that has the message sends it to its children, in order.
// P−1 messages, the tree's latency. A dead process leaves its whole subtree without the message.

package broadcast

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/topology"
)

// Tree disseminates along a tree rooted at rank 0.
type Tree struct{ Tree topology.Tree }

// Fit implements Dissemination.
func (t *Tree) Fit(p int) error {
	if t.Tree.Size() != p {
		return fmt.Errorf("tree of %d ranks for %d processes", t.Tree.Size(), p)
	}
	if t.Tree.Root() != 0 {
		return fmt.Errorf("tree rooted at %d; broadcasts count ranks from the root: allowed: 0", t.Tree.Root())
	}
	return nil
}

// Color implements Dissemination.
func (t *Tree) Color(*Spreading, Rank, uint16) {}

// Acknowledge implements Dissemination: no process acknowledges.
func (t *Tree) Acknowledge(*Spreading, Rank, Rank) {}

// Next implements Dissemination.
func (t *Tree) Next(s *Spreading, self Rank, _ Time) protocol.Action[Message[None]] {
	child := t.Tree.Child(int(self), int(s.Next))
	if child < 0 {
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	}
	s.Next++
	return protocol.Action[Message[None]]{Kind: protocol.Send, To: Rank(child)}
}
