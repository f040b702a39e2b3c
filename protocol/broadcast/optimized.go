// Optimized opportunistic correction (Corrected Trees, §3.3): as opportunistic,
// but what a corrector hears spares it messages.
//
// The paper's rule: i hears from j, at distance n on one side. It owes that side nothing more, and the other side only
// what j, which reaches D, does not: the distances D−n+1 … D. The second half is unsafe. When the messages of two
// neighbours cross, each relies on the other and what lies beyond both is sent by none (19 drops 15–18 because 23 reaches
// them, 23 drops them because it heard 19).
//
// Ours is the first half alone: i owes the side it heard from nothing more. Let
// u be uncolored, and within D of the nearest corrector a on one side. Either a
// sends to u, or it has heard from some j on u's side; j sends to one distance
// after the other, so it has sent to u before a. Colors every live process if
// no gap is larger than 2D (beside the root of an open ring: D), as
// opportunistic correction does.
//
// One-sided, a corrector hears only from the side it does not send to, so the first half spares nothing, but the second
// is safe: of those that could reach u, the farthest has heard from none that could. Gaps up to D.

package broadcast

// Optimized is optimized opportunistic correction with distance D on each side.
type Optimized struct {
	Ring
	D     int32
	Paper bool // the paper's rule, also where it is unsafe
}

// Fit implements Correction.
func (c *Optimized) Fit(p int) error { return c.fitDistance(p, c.D) }

// Init implements Correction.
func (c *Optimized) Init(w *Walk, self Rank) { c.start(w, self, c.D) }

// Receive implements Correction.
func (c *Optimized) Receive(w *Walk, self Rank, _ Time, from Rank, m Message[None]) {
	side, n, ok := c.heard(self, from, m.Kind)
	if !ok {
		return
	}
	w.Owed[side] = 0
	if c.Paper || c.OneSided {
		w.Sent[side.Other()] = max(w.Sent[side.Other()], c.D-n)
	}
}
