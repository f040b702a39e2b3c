package broadcast

// Watermark remembers which numbers of a sequence it has seen: all below a mark
// and a bounded set above it. A plain counter (Corrected Gossip, Claim 1:
// discard everything up to the last one seen) would lose a broadcast that a
// later one overtook. The zero value has seen nothing.
//
// The set spans Window numbers. One that is older than that counts as seen, so nothing is ever accepted twice.
type Watermark struct {
	low   uint64 // all below count as seen
	above uint64 // bit i: low+i was seen
}

// Window is how far numbers may overtake each other.
const Window = 64

// Add notes n and reports whether it is new.
func (w *Watermark) Add(n uint64) bool {
	if n < w.low {
		return false
	}
	if ahead := n - w.low; ahead >= Window {
		w.slide(ahead - Window + 1)
	}
	bit := uint64(1) << (n - w.low)
	if w.above&bit != 0 {
		return false
	}
	w.above |= bit
	for w.above&1 != 0 {
		w.slide(1)
	}
	return true
}

func (w *Watermark) slide(n uint64) {
	w.low += n
	w.above >>= n // 0 if n ≥ 64
}
