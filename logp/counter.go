package logp

// counter counts for each of 64 ranks: each word is one binary digit of all their numbers.
type counter [6]uint64

// add adds one for the ranks of a word.
func (c *counter) add(carry uint64) {
	for i := range c {
		c[i], carry = c[i]^carry, c[i]&carry
	}
}

// dec subtracts one from every number that is not 0.
func (c *counter) dec() {
	borrow := c.any()
	for i := range c {
		c[i], borrow = c[i]^borrow, borrow&^c[i]
	}
}

// any returns the ranks whose number is not 0.
func (c *counter) any() uint64 {
	some := uint64(0)
	for i := range c {
		some |= c[i]
	}
	return some
}

// at returns the number of one rank.
func (c *counter) at(bit int) int {
	n := uint64(0)
	for i := range c {
		n |= c[i] >> bit & 1 << i
	}
	return int(n)
}

// most returns the largest number.
func (c *counter) most() int {
	n, top := 0, ^uint64(0) // ranks that have the largest so far
	for i := len(c) - 1; i >= 0; i-- {
		if top&c[i] != 0 {
			n |= 1 << i
			top &= c[i]
		}
	}
	return n
}
