package loop

import "slices"

// The operations that a loop may repeat. Those with a root have it at rank 0; after
// each but a ping-pong and a barrier comes a barrier that is not timed.
const (
	PingPong      = "pingpong"      // 2 processes: there and back
	Broadcast     = "broadcast"     // a block from the root to all
	Reduce        = "reduce"        // the sum of all tasks' numbers, at the root
	AllReduce     = "allreduce"     // the same at all
	Scan          = "scan"          // the sum of a task's numbers and those of lower ranks
	Scatter       = "scatter"       // a block for each task, from the root
	Gather        = "gather"        // a block of each task, to the root
	AllGather     = "allgather"     // the same to all
	AllToAll      = "alltoall"      // a block for each pair
	Barrier       = "barrier"       // one after the other
	ExScan        = "exscan"        // the sum of the numbers of lower ranks; not in openmpi/loop.c
	ReduceScatter = "reducescatter" // a block of numbers for each pair, and the sum of those for a task; not in openmpi/loop.c
	Agree         = "agree"         // the sum of all tasks' numbers, on which all agree; not in openmpi/loop.c
	Save          = "save"          // a block of each task is saved, with copies at others; not in openmpi/loop.c
	Sends         = "sends"         // what Save is compared with: a block of each task to as many others, and a barrier
	Start         = "start"         // one barrier, nothing recorded: the caller times the process
)

// Collectives are the operations of a whole group.
var Collectives = []string{Broadcast, Reduce, AllReduce, Scan, Scatter, Gather, AllGather, AllToAll, Barrier}

// Further are operations of a whole group that only Coppice's side has.
var Further = []string{ExScan, ReduceScatter}

// Ops are the operations that all sides have; Known are all operations.
var (
	Ops   = slices.Concat([]string{PingPong}, Collectives, []string{Start})
	Known = slices.Concat(Ops, Further, []string{Agree, Save, Sends})
)

// CopiesDefault is how many copies the library keeps of what a task saves.
const CopiesDefault = 2

// numberBytes is the size of the numbers that are added, float64.
const numberBytes = 8

// Sums reports whether an operation adds numbers: then its bytes are a multiple of 8.
func Sums(op string) bool {
	return slices.Contains([]string{Reduce, AllReduce, Scan, ExScan, ReduceScatter, Agree}, op)
}

// Sized reports whether an operation carries data.
func Sized(op string) bool { return op != Barrier && op != Start }

// Moved returns the bytes that an operation on p processes must move to other processes, all together.
func Moved(op string, bytes, p int) int {
	switch op {
	case PingPong:
		return 2 * bytes
	case AllReduce, Agree: // to one and back to all, or as much in pieces
		return 2 * bytes * (p - 1)
	case AllGather, AllToAll, ReduceScatter:
		return bytes * p * (p - 1)
	case Save, Sends: // for each copy
		return bytes * p
	case Barrier, Start:
		return 0
	default:
		return bytes * (p - 1)
	}
}

// The time that an iteration is expected to take at most, on the slower side of an ordinary machine
// with fewer cores than processes: 100 µs for each process, with the barrier, and 2 GB/s. Both come
// from docs/baselines.md.
const (
	processUS  = 100
	bytesPerUS = 2000
)

// Iterations returns how often an operation repeats so that it takes about seconds, but at least three
// times: a median needs some.
func Iterations(op string, bytes, p int, seconds float64) int {
	if op == Start {
		return 1
	}
	us := processUS*float64(p) + float64(Moved(op, bytes, p))/bytesPerUS
	return max(3, int(seconds*1e6/us))
}

// Warmup returns how many iterations precede the recorded ones.
func Warmup(iterations int) int { return max(1, iterations/10) }
