// Package topology says who talks to whom: trees, rings and graphs over the
// ranks 0 … P−1, as arithmetic. Nothing here keeps a table that grows with P
// but in-order trees, and what Tabulate is asked for; an interleaved tree over 2^31
// processes costs as little as one over eight. Its API may change.
//
// The trees are those of Küttler et al., Corrected Trees for Reliable Group
// Communication (PPoPP 2019), section 3.2. Binomial, KAry, Lame and Optimal
// build them by name, ParseShape from text, and Rooted gives them another root.
package topology

// Tree is a rooted tree over the ranks 0 … Size()−1. Children come in sending
// order: a parent sends to Child(r, 0) first.
type Tree interface {
	// Size is the number of ranks.
	Size() int
	// Root is the rank without a parent.
	Root() int
	// Parent of rank r; −1 for the root.
	Parent(r int) int
	// Child returns the i-th child of rank r, counted from 0, or −1 if r has
	// no more than i children.
	Child(r, i int) int
}
