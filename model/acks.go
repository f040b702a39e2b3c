// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 4.1: a tree with
// acknowledgements, which Corrected Trees are compared with.
//
// A leaf acknowledges to its parent as soon as it is colored, every other
// process as soon as it has received the acknowledgements of all its children.
// Acknowledgements that reach a process together queue for its receive port,
// which takes o for each. The broadcast is over when the root has the last one.
//
// Cost: one walk over the tree and a sort of every process's acknowledgements;
// memory for the children of the processes on the way down.

package model

import (
	"slices"

	"github.com/coppice-go/coppice/topology"
)

// AckLatency is the quiescence latency of a broadcast over t with
// acknowledgements back up the tree, without failures.
func AckLatency(t topology.Tree, l, o int) int {
	type process struct {
		rank, i int // i children have been followed
		colored int
		acks    int // where its own begin in arrivals
	}
	var arrivals []int
	path := []process{{rank: t.Root()}}
	for {
		r := &path[len(path)-1]
		if to := t.Child(r.rank, r.i); to >= 0 {
			at := r.colored + r.i*o + 2*o + l
			r.i++
			path = append(path, process{rank: to, colored: at, acks: len(arrivals)})
			continue
		}
		acked := receive(arrivals[r.acks:], r.colored, o)
		arrivals = arrivals[:r.acks]
		path = path[:len(path)-1]
		if len(path) == 0 {
			return acked
		}
		arrivals = append(arrivals, acked+o+l)
	}
}

// receive returns when the last of the messages has been received by a port
// that is free from the given time on and takes o for each. It sorts them.
func receive(arrivals []int, free, o int) int {
	slices.Sort(arrivals)
	for _, at := range arrivals {
		free = max(free, at) + o
	}
	return free
}
