package logp

// ringSet is a set of ranks on a ring. On both sides its words are continued with the ranks from the other
// end, so that shifts need not wrap.
type ringSet struct {
	set // bit r+64 is rank r
	p   int
}

func newRingSet(p int) ringSet { return ringSet{make(set, (p+63)/64+3), p} }

// fill puts all ranks in.
func (s ringSet) fill() {
	for i := range s.set {
		s.set[i] = ^uint64(0)
	}
}

func (s ringSet) has(r int) bool { return s.set.has(r + 64) }

func (s ringSet) remove(r int) { s.set[(r+64)>>6] &^= 1 << (r & 63) }

// close copies the continuations at both ends, after the last change.
func (s ringSet) close() {
	at, shift := s.p>>6+1, s.p&63
	s.set[at] &= 1<<shift - 1
	s.set[at] |= s.set[1] << shift
	s.set[at+1] = s.set[1]>>(64-shift) | s.set[2]<<shift
	s.set[0] = s.window(s.p - 64)
}

// window returns the 64 ranks from r on.
func (s ringSet) window(r int) uint64 {
	r += 64
	return s.set[r>>6]>>(r&63) | s.set[r>>6+1]<<(64-r&63)
}

// word returns the ranks r of the word with index w for which r+offset is in the set.
func (s ringSet) word(w, offset int) uint64 { return s.window(w<<6+offset) & valid(w, s.p) }
