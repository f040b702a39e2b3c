// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 4.2: Lemma 2,
// Corollary 1 and Lemma 3.
//
// In synchronized checked correction all colored processes begin at once to send to their neighbours on the ring, left
// and right in turn, until they have heard from both sides. Without failures every process has heard from both sides
// after 3o+L and stops with the send begun before that. A gap of uncolored processes makes those at its ends send on until
// they meet.
//
// The paper has ⌊L/o⌋, which is right where o divides L; in general it is ⌈L/o⌉
// (L=3, o=2: 15 steps and 5 messages), since what ends at a time is known to a
// decision taken at that time.

package model

// SyncCheckedLatency is L_SCC^FF, the quiescence latency of synchronized checked
// correction without failures, from its start (Lemma 2). See SyncCheckedApplies.
func SyncCheckedLatency(l, o int) int { return 4*o + l + ceilDiv(l, o)*o }

// SyncCheckedMessages is M_SCC, the number of messages that each process sends in
// synchronized checked correction without failures (Corollary 1). See
// SyncCheckedApplies.
func SyncCheckedMessages(l, o int) int { return 3 + ceilDiv(l, o) }

// SyncCheckedBounds are the bounds of the quiescence latency of synchronized
// checked correction, from its start, if the longest run of uncolored processes
// on the ring is gMax ≥ 1 (Lemma 3). See SyncCheckedApplies.
func SyncCheckedBounds(l, o, gMax int) (low, high int) {
	ff := SyncCheckedLatency(l, o)
	return ff + gMax*o, ff + (2*gMax+1)*o
}

// SyncCheckedApplies reports whether p processes are enough for Lemma 2 and
// Corollary 1 (gMax = 0) or Lemma 3 (gMax ≥ 1). On a small ring messages meet on
// the far side and correction ends earlier. The paper asks for P ≫ g_max;
// P ≥ 8·g_max, and more processes than messages that one of them sends, are
// enough. (Binomial, P=8, failed {1,4,6}: g_max is 5, 11 steps instead of 13.)
func SyncCheckedApplies(p, l, o, gMax int) bool {
	return p >= 8*gMax && p > SyncCheckedMessages(l, o)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
