// Optimized opportunistic correction (Corrected Trees, §3.3): as opportunistic,
// but what a corrector hears spares it messages. Two rules.
//
// The paper's: i hears from j, at distance n on one side. It owes that side
// nothing more, and the other side only what j, who reaches D, does not: the
// distances D−n+1 … D. With two sides this is unsafe. When the messages of two
// neighbours cross, each relies on the other and what lies beyond both is sent
// by none (19 drops 15–18 because 23 reaches them, 23 drops them because it
// heard 19). With one side it is safe: of those that could reach u, the
// farthest has heard from nobody who could.
//
// Ours, for two sides: meet in the middle. After hearing from distance n, send
// no farther than ⌈n/2⌉ to that side. Of the two correctors around an uncolored
// process the nearer one owes it by this rule whatever it has heard, because
// nobody it heard from is nearer than the other one. Colors every live process
// if no gap is larger than 2D (one-sided: D; beside the root of an open ring:
// D), as opportunistic correction does.

package broadcast

import "github.com/coppice-go/coppice/protocol"

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
	side, n := c.heard(self, from, m.Kind)
	if !c.Paper && !c.OneSided {
		w.Owed[side] = min(w.Owed[side], (n+1)/2)
		return
	}
	w.Owed[side] = 0
	w.Sent[side.Other()] = max(w.Sent[side.Other()], c.D-n)
}

// Next implements Correction.
func (c *Optimized) Next(w *Walk, self Rank, _ Time, corrected bool) protocol.Action[Message[None]] {
	if corrected {
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	}
	return c.step(w, self)
}
