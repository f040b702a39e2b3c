// Source: Küttler et al., Corrected Trees (PPoPP 2019), sections 1 and 3.2
// (Figures 1a, 3 and 4, left), where it is what to avoid.
//
// The in-order numbering gives the ranks of a shape in the order of a
// depth-first traversal, children in sending order, so that a subtree is a run
// of consecutive ranks. The shape is the truncated interleaved one: both
// numberings broadcast equally fast without failures.
//
// Cost: a table of 12 bytes a rank; Child and Parent in O(1).

package topology

import (
	"fmt"
	"slices"
)

// inOrderMax is the largest in-order tree: a table of 768 MiB.
const inOrderMax = 1 << 26

// inOrder numbers a shape depth first.
func inOrder(shape Tree) (Tree, error) {
	if shape.Size() > inOrderMax {
		return nil, fmt.Errorf("in-order tree of %d ranks; allowed: 1 to %d", shape.Size(), inOrderMax)
	}
	number, rank := depthFirst(shape)
	return newTable(shape, func(q, i int) int {
		child := shape.Child(int(rank[q]), i)
		if child < 0 {
			return -1
		}
		return int(number[child])
	}), nil
}

// depthFirst returns the depth-first number of every rank, and the inverse.
func depthFirst(t Tree) (number, rank []int32) {
	number = make([]int32, t.Size())
	rank = make([]int32, 0, t.Size())
	pending := []int32{int32(t.Root())}
	for len(pending) > 0 {
		r := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		number[r] = int32(len(rank))
		rank = append(rank, r)
		first := len(pending)
		for i := 0; ; i++ {
			c := t.Child(int(r), i)
			if c < 0 {
				break
			}
			pending = append(pending, int32(c))
		}
		slices.Reverse(pending[first:])
	}
	return number, rank
}
