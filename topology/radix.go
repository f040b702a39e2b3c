// Source: Varma, Scalable, Fault-Tolerant Membership for Group Communication on
// HPC Systems (NCSU 2006), section 3.1.
//
// Every node has up to a = 2^b children and its ID encodes the route to it from
// the root, which has the lowest ID: the place of a node in its level, written
// in digits of b bits, says which link to follow at each step. No table and no
// message is needed to know the tree, and all of it is shifts and masks.
//
// Figure 3.1 is missing from our copy; this is our reading of the text. IDs go
// level by level, for a node that joins becomes a leaf at the bottom (3.1.6)
// and full trees have 3, 7, 15 or 5, 21 nodes (6.1). "The ID of each child is
// determined as a function of the height of the node in the tree and the
// maximum number of children" gives r + i·a^ℓ for the i-th child, i = 1 … a, of
// r at level ℓ; the customary a·r + i would not ask for the height. The first
// link is then the lowest digit, and the tree is the interleaved a-ary tree.
//
// Cost: O(1) for Parent, Child and Level; no memory.

package topology

import (
	"fmt"
	"math/bits"
)

// RadixTree is the radix tree of the membership service. It implements Tree.
type RadixTree struct {
	p    int
	bits int // b
}

// Radix returns the radix tree of p nodes with up to a children each; a is a
// power of two.
func Radix(a, p int) (*RadixTree, error) {
	if a < 2 || a > SizeMax || a&(a-1) != 0 {
		return nil, fmt.Errorf("radix tree with %d children; allowed: a power of two from 2 to %d", a, SizeMax)
	}
	if err := checkSize(p); err != nil {
		return nil, err
	}
	return &RadixTree{p: p, bits: bits.TrailingZeros(uint(a))}, nil
}

// Size is the number of nodes.
func (t *RadixTree) Size() int { return t.p }

// Root is 0, the lowest ID.
func (t *RadixTree) Root() int { return 0 }

// Level returns the number of links from the root to r.
func (t *RadixTree) Level(r int) int {
	// Level ℓ starts at (a^ℓ−1)/(a−1), so r·(a−1)+1 has ℓ digits after the first.
	return (bits.Len(uint(r<<t.bits-r+1)) - 1) / t.bits
}

// place returns the level of r and its place in it, the ℓ digits of the route.
func (t *RadixTree) place(r int) (level, place int) {
	level = t.Level(r)
	return level, r - t.start(level)
}

// start returns the first ID of a level, (a^ℓ−1)/(a−1): a one in each of ℓ
// digits.
func (t *RadixTree) start(level int) int {
	return (1<<(t.bits*level) - 1) / (1<<t.bits - 1)
}

// Parent returns the node above r, −1 for the root: the route without its last
// digit.
func (t *RadixTree) Parent(r int) int {
	level, place := t.place(r)
	if level == 0 {
		return -1
	}
	level--
	return t.start(level) + place&(1<<(t.bits*level)-1)
}

// Child returns the i-th child of r, counted from 0, or −1 if r has no more
// than i.
func (t *RadixTree) Child(r, i int) int {
	if uint(i) >= 1<<t.bits {
		return -1
	}
	if child := r + (i+1)<<(t.bits*t.Level(r)); child < t.p {
		return child
	}
	return -1
}

// Path returns the links to follow from the root to r: r is reached by taking
// Child(·, link) for each of them in turn.
func (t *RadixTree) Path(r int) []int {
	level, place := t.place(r)
	path := make([]int, level)
	for i := range path {
		path[i] = place & (1<<t.bits - 1)
		place >>= t.bits
	}
	return path
}
