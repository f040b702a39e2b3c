// Checked correction (Corrected Gossip, §III.C, Algorithm 2, in the reading of its prose; Corrected Trees, §3.1): a
// corrector sends to ever farther neighbours on each side until it has sent as far as the nearest process it heard from
// there. A process that lies between two correctors hears from both.
//
// Cost without failures, synchronized: 3+⌈L/o⌉ messages a process and
// 4o+L+⌈L/o⌉·o steps (Lemma 2, Corollary 1); a gap of g adds between g·o and
// (2g+1)·o steps (Lemma 3). Survives any failures before correction, colors
// every live process; a corrector that dies during it may leave some
// uncolored.

package broadcast

import "math"

// Checked is checked correction.
type Checked struct{ Ring }

// Fit implements Correction.
func (c *Checked) Fit(p int) error { return c.fitTwoSided(p) }

// Init implements Correction.
func (c *Checked) Init(w *Walk, self Rank) { c.start(w, self, math.MaxInt32) }

// Receive implements Correction.
func (c *Checked) Receive(w *Walk, self Rank, _ Time, from Rank, m Message[None]) {
	if side, n, ok := c.heard(self, from, m.Kind); ok {
		w.Owed[side] = min(w.Owed[side], n)
	}
}
