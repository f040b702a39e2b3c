// Source: Varma, Scalable, Fault-Tolerant Membership for Group Communication on
// HPC Systems (NCSU 2006), section 3.1.
//
// Every node has up to a = 2^b children and its ID encodes the route to it from
// the root, which has the lowest ID: the place of a node in its level, written
// in digits of b bits, says which link to follow at each step. No message is
// needed to know the tree.
//
// Figure 3.1 is missing from our copy; this is our reading of the text. IDs go
// level by level, for a node that joins becomes a leaf at the bottom (3.1.6)
// and full trees have 3, 7, 15 or 5, 21 nodes (6.1). "The ID of each child is
// determined as a function of the height of the node in the tree and the
// maximum number of children" gives r + i·a^ℓ for the i-th child, i = 1 … a, of
// r at level ℓ; the customary a·r + i would not ask for the height. The first
// link is then the lowest digit, and the tree is the interleaved a-ary tree.
//
// Cost: that of the k-ary tree; Level in a step for each level.

package topology

import "fmt"

// RadixTree is the radix tree of the membership service.
type RadixTree struct{ Tree }

// Radix returns the radix tree of p nodes with up to a children each; a is a
// power of two. Its root is 0, the lowest ID.
func Radix(a, p int) (*RadixTree, error) {
	if a < 2 || a > SizeMax || a&(a-1) != 0 {
		return nil, fmt.Errorf("radix tree with %d children; allowed: a power of two from 2 to %d", a, SizeMax)
	}
	tree, err := KAry(a, p, Interleaved)
	if err != nil {
		return nil, err
	}
	return &RadixTree{tree}, nil
}

// Level returns the number of links from the root to r.
func (t *RadixTree) Level(r int) (level int) {
	for r = t.Parent(r); r >= 0; r = t.Parent(r) {
		level++
	}
	return level
}
