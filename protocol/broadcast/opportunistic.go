// Opportunistic correction (Corrected Gossip, §III.B, Algorithm 1, lines 7–10;
// Corrected Trees, §3.1): a corrector sends to its D nearest neighbours on
// each side, whatever it hears. 2D messages a process. Colors every live
// process if no gap is larger than 2D (one-sided, or beside the root of an
// open ring: D) and nobody dies meanwhile.

package broadcast

// Opportunistic is opportunistic correction with distance D on each side.
type Opportunistic struct {
	Ring
	D int32
}

// Fit implements Correction.
func (c *Opportunistic) Fit(p int) error { return c.fitDistance(p, c.D) }

// Init implements Correction.
func (c *Opportunistic) Init(w *Walk, self Rank) { c.start(w, self, c.D) }

// Receive implements Correction.
func (c *Opportunistic) Receive(*Walk, Rank, Time, Rank, Message[None]) {}
