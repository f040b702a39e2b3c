// Opportunistic correction (Corrected Gossip, §III.B, Algorithm 1, lines 7–10; Corrected Trees, §3.1): a corrector sends
// to its D nearest neighbours on each side, whatever it hears. 2D messages a process. Colors every live process if no gap
// is larger than 2D (one-sided, or beside the root of an open ring: D) and no process dies meanwhile.
//
// Instead of D the number of messages can be given, as OCG has it: N of them,
// to the two sides in turn, so that an odd N gives First one more. Gaps up to
// N are then closed.

package broadcast

import "fmt"

// Opportunistic is opportunistic correction with distance D on each side, or
// with N messages in all. Exactly one of the two is set.
type Opportunistic struct {
	Ring
	D int32
	N int32
}

// Fit implements Correction.
func (c *Opportunistic) Fit(p int) error {
	if c.N == 0 {
		return c.fitDistance(p, c.D)
	}
	most := max(2*(p-1), 1)
	if c.OneSided {
		most = max(p-1, 1)
	}
	switch {
	case c.D != 0:
		return fmt.Errorf("opportunistic correction with distance %d and %d messages; allowed: one of them", c.D, c.N)
	case c.N < 1 || int(c.N) > most:
		return fmt.Errorf("%d correction messages a process among %d processes; allowed: 1 to %d", c.N, p, most)
	}
	return c.fit(p)
}

// Init implements Correction.
func (c *Opportunistic) Init(w *Walk, self Rank) {
	switch {
	case c.N == 0:
		c.start(w, self, c.D)
	case c.OneSided:
		c.start(w, self, c.N)
	default:
		c.start(w, self, c.N-c.N/2)
		w.Owed[c.First.Other()] = min(w.Owed[c.First.Other()], c.N/2)
	}
}

// Receive implements Correction.
func (c *Opportunistic) Receive(*Walk, Rank, Time, Rank, Message[None]) {}

// OnlyColors implements OnlyColors.
func (c *Opportunistic) OnlyColors() {}
