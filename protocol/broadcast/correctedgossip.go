// The broadcasts of Corrected Gossip (Hoefler et al., IPDPS 2017, §III and Algorithms 1–3), put together from gossip by
// clock and the corrections of this package. All processes gossip until the time T; correction starts when the last of
// these messages has been received (GossipEnd) and sends forward first. Simulate them on a network that lets receives
// overlap.
//
// What OCG's C counts. By Claim 2 it is a time that begins with the correction
// and in which all are reached, C = K̄·O + L + O. Correctors send one message
// every O, and the last one that is received by then was sent (L+O) + O before
// the end: so each sends (C−L−O)/O = K̄ messages, forward and backward in turn,
// and an odd K̄ gives forward one more. Figure 7 agrees: for N = 4096, L = 2,
// O = 1 the latency T+L+O+C = 42 with T = 32 makes C = 7 and K̄ = 4, and 4
// messages from each of about 4,077 g-nodes with 22,094 of gossip (medians of
// our simulation) are 38,402; the table has 38,400. Algorithm 1 uses the letter
// differently: there sends end at the moment C of the common clock, which is
// T+L+O + K̄·O.

package broadcast

import "fmt"

// OCG is opportunistic corrected gossip: correction for the time c. The chance to reach all processes depends on t and c.
func OCG(p int, t, c, l, o Time) Spec {
	n := Time(0) // refused by Build, as is what is too short
	if o > 0 {
		n = (c - l - o) / o
	}
	return correctedGossip(p, t, l, o, fmt.Sprintf("opportunistic-sends:%d", n))
}

// CCG is checked corrected gossip: it reaches all processes unless one dies during correction.
func CCG(p int, t, l, o Time) Spec { return correctedGossip(p, t, l, o, "checked") }

// FCG is failure-proof corrected gossip: it reaches all processes or none, for up to f deaths at any moment.
func FCG(p int, t Time, f int, l, o Time) Spec {
	return correctedGossip(p, t, l, o, fmt.Sprintf("failure-proof:%d", f))
}

func correctedGossip(p int, t, l, o Time, correction string) Spec {
	s := Spec{
		P: p, Tree: fmt.Sprintf("gossip:%d", t), Correction: correction,
		Ring: Ring{First: ToRight}, Synchronized: true, L: l, O: o,
	}
	s.Start, _, _ = s.GossipEnd() // an error is Build's to report
	return s
}
