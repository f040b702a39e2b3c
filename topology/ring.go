// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 3.1, after
// Hoefler et al., Corrected Gossip (IPDPS 2017), section III.
//
// For correction all processes form a ring in the order of their ranks. Right
// is towards higher ranks, left towards lower ones, and the ends meet.
//
// Cost: O(1).

package topology

// Ring is the ring of that many ranks, at least one.
type Ring int

// Right returns the rank at distance d to the right of r.
func (p Ring) Right(r, d int) int { return p.mod(r + d%int(p)) }

// Left returns the rank at distance d to the left of r.
func (p Ring) Left(r, d int) int { return p.mod(r - d%int(p)) }

// ToRight returns the distance from r to s going right, 0 … P−1.
func (p Ring) ToRight(r, s int) int { return p.mod(s - r) }

// ToLeft returns the distance from r to s going left, 0 … P−1.
func (p Ring) ToLeft(r, s int) int { return p.mod(r - s) }

func (p Ring) mod(r int) int {
	if r %= int(p); r < 0 {
		r += int(p)
	}
	return r
}
