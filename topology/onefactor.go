// Source: Stengler, Fault Tolerant Collective Communication Algorithms (TU
// Darmstadt 2017), section 3.6, Algorithm 5, with line 8 read as
// idle := (p/2 · k) mod (p−1).
//
// The complete graph of an even number of processes p falls into p−1 perfect matchings, the 1-factors; in round k every
// process exchanges with its partner of the k-th. For odd p there are p rounds, in each of which the partner of i is
// (k−i) mod p and one process is idle. For even p the first p−1 processes do the same and the one that would be idle meets
// process p−1.
//
// Cost: p rounds if p is odd, p−1 if it is even, one exchange a process and
// round; O(1) to find a partner.

package topology

// OneFactor is the schedule in which that many ranks, at least one, meet in pairs until each has met every other once.
type OneFactor int

// Rounds is the number of rounds.
func (p OneFactor) Rounds() int {
	if p == 1 {
		return 0
	}
	return p.modulus()
}

// Partner returns the rank that i meets in round k, counted from 0, or −1 if i is idle.
func (p OneFactor) Partner(i, k int) int {
	m := p.modulus()
	last := int(p) - 1
	if p%2 == 0 && i == last {
		return int(p) / 2 * k % m // idle, Algorithm 5 line 8
	}
	switch partner := Ring(m).ToRight(i, k); {
	case partner != i:
		return partner
	case p%2 == 0:
		return last
	default:
		return -1
	}
}

// modulus is the odd number that the rounds count modulo.
func (p OneFactor) modulus() int { return int(p) - 1 + int(p)%2 }
