// A barrier: no process leaves it before all processes have entered it.
//
// Dissemination (Hensgen, Finkel, Manber, Two Algorithms for Barrier Synchronization, 1988; Mellor-Crummey, Scott,
// Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors, 1991): in round k every process tells the
// one 2^k ranks after it, on the ring, that it is there and has heard of the rounds before. After round k it therefore
// knows of the 2^(k+1)−1 before it. P·⌈log₂ P⌉ messages, ⌈log₂ P⌉ steps of 2o+L.
//
// UpDown: arrivals are gathered along a binomial tree to process 0, which then
// broadcasts along the same tree that all are there. 2(P−1) messages, twice the
// tree's depth in steps: at most 2⌈log₂ P⌉. It takes longer where every process
// has a processor of its own, and is the better one where they share a few,
// since then the messages of all together count. The tree is numbered in order, because
// neighbours share a host: of 256 processes on 4 hosts, 16 have their parent on another
// host, where in the interleaved tree 192 have.
//
// Star is UpDown with a tree of depth one: 2(P−1) messages and two steps, but process 0 sends and receives all of them.
// It suits processes that share memory, where a message costs mostly the access to another process's memory: here that
// is always the same process.
//
// In all of them, Deliver follows the last send: once a process's user goes on, the
// others need nothing more from it for this barrier.
//
// Neither survives a failure: a process that dies before its last send may make
// all others wait, and none of them leaves wrongly. It assumes channels that
// lose nothing; their order does not matter.

package collective

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/topology"
)

// Shape says which processes send messages to which in a barrier.
type Shape uint8

// The shapes of a barrier.
const (
	Dissemination Shape = iota // all processes in rounds: fewest steps
	UpDown                     // up a tree and down again: fewest messages
	Star                       // the same with process 0 as the parent of all
)

var shapeNames = [...]string{"dissemination", "up-down", "star"}

func (s Shape) String() string {
	if int(s) < len(shapeNames) {
		return shapeNames[s]
	}
	return fmt.Sprintf("Shape(%d)", uint8(s))
}

// Barrier is a barrier of the processes 0 … P−1; NewBarrier makes it. A process
// enters by the notice Begin and may go on at Deliver, which carries nothing.
type Barrier struct {
	P     int
	Shape Shape
	graph topology.BinomialGraph // Dissemination: round k is along its k-th edge
	tree  topology.Tree          // UpDown
}

// StarMax is the largest star: process 0 has a bit for every other.
const StarMax = 32

// tableMax is the number of processes up to which a tree is worth a table.
const tableMax = 1 << 16

// NewBarrier returns a barrier of p processes.
func NewBarrier(p int, shape Shape) (*Barrier, error) {
	if p < 1 || p > math.MaxInt32 {
		return nil, fmt.Errorf("a barrier of %d processes; allowed: 1 to %d", p, math.MaxInt32)
	}
	if int(shape) >= len(shapeNames) {
		return nil, fmt.Errorf("a barrier of shape %d; allowed: dissemination (0), up-down (1), star (2)", uint8(shape))
	}
	b := &Barrier{P: p, Shape: shape, graph: topology.BinomialGraph(p)}
	var err error
	switch shape {
	case UpDown:
		order := topology.InOrder
		if p > tableMax { // such a tree needs a table
			order = topology.Interleaved
		}
		b.tree, err = topology.Binomial(p, order)
	case Star:
		if p > StarMax {
			return nil, fmt.Errorf("a star of %d processes; allowed: 1 to %d", p, StarMax)
		}
		b.tree, err = topology.KAry(max(p-1, 1), p, topology.Interleaved)
	}
	if b.tree != nil && p <= tableMax {
		b.tree = topology.Tabulate(b.tree)
	}
	return b, err
}

// BarrierMessage is a message of a barrier: Up, Down, or the number of a round of dissemination, 0 … 30.
type BarrierMessage uint8

// The messages of the shape UpDown.
const (
	Up   BarrierMessage = 0x40 // all below me and I have entered
	Down BarrierMessage = 0x41 // all have entered
)

func (m BarrierMessage) String() string {
	switch m {
	case Up:
		return "up"
	case Down:
		return "down"
	}
	return fmt.Sprintf("round %d", uint8(m))
}

// BarrierState is one process's progress in a barrier.
type BarrierState struct {
	came  uint32 // bit k: what round k brings, or the Up of child k; downBit: the Down
	self  Rank
	sent  uint8 // messages sent
	stage barrierStage
}

// downBit is beyond all rounds and children: 31 of them are enough for any Rank.
const downBit = 1 << 31

type barrierStage uint8

const (
	outside   barrierStage = iota // the user has not entered
	inside                        // it has
	delivered                     // it may go on
)

// Init implements protocol.Protocol.
func (b *Barrier) Init(s *BarrierState, self Rank, _ uint64) { *s = BarrierState{self: self} }

// Notify implements protocol.Protocol: Begin enters, all else is ignored.
func (b *Barrier) Notify(s *BarrierState, _ Time, n protocol.Notice) {
	if n.Kind == protocol.Begin && s.stage == outside {
		s.stage = inside
	}
}

// Receive implements protocol.Protocol. It ignores a message that only another process could have sent: such a message
// must not open the barrier.
func (b *Barrier) Receive(s *BarrierState, _ Time, from Rank, m BarrierMessage) {
	switch {
	case b.Shape == Dissemination:
		if int(from) == b.graph.In(int(s.self), int(m)) {
			s.came |= 1 << m
		}
	case m == Up && b.Shape == Star:
		if s.self == 0 && from > 0 && int(from) < b.P {
			s.came |= 1 << (from - 1)
		}
	case m == Up:
		for i := range b.children(s.self) {
			if from == b.child(s.self, i) {
				s.came |= 1 << i
			}
		}
	case m == Down && from == b.parent(s.self):
		s.came |= downBit
	}
}

// Next implements protocol.Protocol.
func (b *Barrier) Next(s *BarrierState, _ Time) protocol.Action[BarrierMessage] {
	switch s.stage {
	case outside:
		return protocol.Action[BarrierMessage]{Kind: protocol.Idle}
	case delivered:
		return protocol.Action[BarrierMessage]{Kind: protocol.Done}
	}
	if b.Shape == Dissemination {
		return b.nextRound(s)
	}
	return b.nextUpDown(s)
}

// nextRound sends round k as soon as the rounds before k are here; s.sent is k.
func (b *Barrier) nextRound(s *BarrierState) protocol.Action[BarrierMessage] {
	k := int(s.sent)
	switch {
	case b.missing(s, k) != 0:
		return protocol.Action[BarrierMessage]{Kind: protocol.Idle}
	case k == b.graph.Degree():
		return s.deliver()
	}
	return s.send(Rank(b.graph.Out(int(s.self), k)), BarrierMessage(k))
}

// nextUpDown sends Up when all children have, and Down to the children when the
// parent has. Process 0 has no parent: what would make it send Up lets it send
// Down.
func (b *Barrier) nextUpDown(s *BarrierState) protocol.Action[BarrierMessage] {
	children := b.children(s.self)
	told := int(s.sent) // children
	if s.self != 0 {
		told--
	}
	switch {
	case b.missing(s, children) != 0:
		return protocol.Action[BarrierMessage]{Kind: protocol.Idle}
	case told < 0:
		return s.send(b.parent(s.self), Up)
	case s.self != 0 && s.came&downBit == 0:
		return protocol.Action[BarrierMessage]{Kind: protocol.Idle}
	case told < children:
		return s.send(b.child(s.self, told), Down)
	}
	return s.deliver()
}

// missing is the bits of the first n rounds or children that are not yet here.
func (b *Barrier) missing(s *BarrierState, n int) uint32 { return (1<<n - 1) &^ s.came }

func (s *BarrierState) send(to Rank, m BarrierMessage) protocol.Action[BarrierMessage] {
	s.sent++
	return protocol.Action[BarrierMessage]{Kind: protocol.Send, To: to, Msg: m}
}

func (s *BarrierState) deliver() protocol.Action[BarrierMessage] {
	s.stage = delivered
	return protocol.Action[BarrierMessage]{Kind: protocol.Deliver}
}

// Awaits lists the processes whose messages this one needs before it does anything more, lowest rank first; none if it
// has not entered or has left. They may have entered and wait in turn: a caller that follows the lists of live processes
// from one to the next comes to those that have not entered or are dead.
func (b *Barrier) Awaits(s *BarrierState) []Rank {
	if s.stage != inside {
		return nil
	}
	if b.Shape == Dissemination {
		m := b.missing(s, int(s.sent))
		if m == 0 {
			return nil
		}
		return []Rank{Rank(b.graph.In(int(s.self), bits.TrailingZeros32(m)))}
	}
	var ranks []Rank
	for m := b.missing(s, b.children(s.self)); m != 0; m &= m - 1 {
		ranks = append(ranks, b.child(s.self, bits.TrailingZeros32(m)))
	}
	if ranks == nil && s.self != 0 && s.sent > 0 && s.came&downBit == 0 {
		ranks = []Rank{b.parent(s.self)}
	}
	return ranks
}

// parent is −1 for process 0.
func (b *Barrier) parent(r Rank) Rank { return Rank(b.tree.Parent(int(r))) }

// child returns the child of r that gets the i-th Down. It has the largest subtree of the children still without one.
func (b *Barrier) child(r Rank, i int) Rank { return Rank(b.tree.Child(int(r), i)) }

// children returns their number, at most 31.
func (b *Barrier) children(r Rank) int {
	if b.Shape == Star {
		if r == 0 {
			return b.P - 1
		}
		return 0
	}
	n := 0
	for b.child(r, n) >= 0 {
		n++
	}
	return n
}
