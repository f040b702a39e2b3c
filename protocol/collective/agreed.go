package collective

// Agreed operations, which all tasks complete or none, where tasks of dead processes are run again: no task fails, so a
// task need only know that all take part before it completes one. The results of all-reduce, all-gather, all-to-all,
// reduce-scatter and barrier need all tasks. The other operations have one part more.
//
//   - Broadcast and scatter follow a reduction to the root, which then knows it.
//   - Scans follow a barrier: what a task gets need not depend on those after it.
//   - The result of gather and reduce needs all, but only the root has one: a broadcast from it follows.
//
// An operation that is aborted is aborted in all its parts. It costs up to P−1 messages for a part.

// Part is one of the operations that an agreed operation is made of.
type Part uint8

// The parts.
const (
	PartItself Part = iota // the operation
	PartUp                 // a reduction to the root
	PartMeet               // a barrier
	PartDown               // a broadcast from the root
)

var (
	onlyItself = []Part{PartItself}
	upFirst    = []Part{PartUp, PartItself}
	meet       = []Part{PartMeet, PartItself}
	downLast   = []Part{PartItself, PartDown}
)

// Parts lists the parts of an agreed operation, in order; 0 stands for a barrier.
func Parts(op Op) []Part {
	switch op {
	case Broadcast, Scatter:
		return upFirst
	case Scan, ExScan:
		return meet
	case Gather, Reduce:
		return downLast
	}
	return onlyItself
}
