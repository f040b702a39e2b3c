// Source: Hoefler et al., Corrected Gossip (IPDPS 2017), section IV.B.3, after
// Angskun, Bosilca, Dongarra, Binomial Graph (ISPA 2007).
//
// Process p is connected to N = {p + 2^x mod P | 0 ≤ x ≤ ⌊log₂ P⌋}. If P is a
// power of two the last of these is p itself and is left out; the others are
// always distinct. The graph is regular: as many edges come in as go out.
//
// Cost: ⌈log₂ P⌉ neighbours each way, each in O(1). Survives any ⌈log₂ P⌉−1
// failures.

package topology

import "math/bits"

// BinomialGraph is the binomial graph of that many ranks, at least one.
type BinomialGraph int

// Degree is the number of neighbours that a rank sends to, ⌈log₂ P⌉, and also of
// those that send to it.
func (p BinomialGraph) Degree() int { return bits.Len(uint(p - 1)) }

// Out returns the i-th neighbour that r sends to, counted from 0, or −1 if
// there are no more than i.
func (p BinomialGraph) Out(r, i int) int {
	if uint(i) >= uint(p.Degree()) {
		return -1
	}
	return Ring(p).Right(r, 1<<i)
}

// In returns the i-th neighbour that sends to r, counted from 0, or −1 if there
// are no more than i. r is the i-th neighbour that In(r, i) sends to.
func (p BinomialGraph) In(r, i int) int {
	if uint(i) >= uint(p.Degree()) {
		return -1
	}
	return Ring(p).Left(r, 1<<i)
}
