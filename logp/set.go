package logp

import (
	"math/bits"
)

// set is a set of ranks, a bit each.
type set []uint64

func newSet(n int) set { return make(set, (n+63)/64) }

func (s set) has(i int) bool { return s[uint(i)>>6]>>(uint(i)&63)&1 != 0 }

func (s set) set(i int) { s[uint(i)>>6] |= 1 << (uint(i) & 63) }

// valid is the ranks below n that the word with index w is about.
func valid(w, n int) uint64 {
	if beyond := (w+1)<<6 - n; beyond > 0 {
		return ^uint64(0) >> beyond
	}
	return ^uint64(0)
}

// others is the ranks below n of the word with index w that are not in the set.
func (s set) others(w, n int) uint64 { return ^s[w] & valid(w, n) }

// longestGap is the length of the longest run of ranks below n that are not in
// the set, on a ring.
func (s set) longestGap(n int) int {
	longest, last, first := 0, -1, -1
	for w, word := range s {
		if word == ^uint64(0) && first >= 0 && last == w<<6-1 {
			last += 64 // no gap in or before this word
			continue
		}
		for ; word != 0; word &= word - 1 {
			i := w<<6 + bits.TrailingZeros64(word)
			if first < 0 {
				first = i
			} else {
				longest = max(longest, i-last-1)
			}
			last = i
		}
	}
	if first < 0 {
		return n
	}
	return max(longest, n-1-last+first)
}

// readySet is a set of ranks that is emptied in rank order. Above its words
// lies a second level with a bit per word that is not empty, so that a sparse
// set costs P/4096 steps.
type readySet struct {
	words set
	upper []uint64
}

func newReadySet(n int) *readySet {
	words := (n + 63) / 64
	return &readySet{words: newSet(n), upper: make([]uint64, (words+63)/64)}
}

func (s *readySet) set(i int) { s.or(int(uint(i)>>6), 1<<(uint(i)&63)) }

// or puts the ranks of the word with index w into the set.
func (s *readySet) or(w int, word uint64) {
	s.words[w] |= word
	s.upper[uint(w)>>6] |= 1 << (uint(w) & 63)
}

func (s *readySet) clear() {
	clear(s.words)
	clear(s.upper)
}

// ringSet is a set of ranks on a ring. A word of it is continued by the ranks
// from the other end on both sides, so that shifts need not wrap.
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

// close continues the ends, after the last change.
func (s ringSet) close() {
	at, shift := s.p>>6+1, s.p&63
	s.set[at] &= 1<<shift - 1
	s.set[at] |= s.set[1] << shift
	s.set[at+1] = s.set[1]>>(64-shift) | s.set[2]<<shift
	s.set[0] = s.window(s.p - 64)
}

// window is the 64 ranks from r on.
func (s ringSet) window(r int) uint64 {
	r += 64
	return s.set[r>>6]>>(r&63) | s.set[r>>6+1]<<(64-r&63)
}

// word tells which ranks r of the word with index w have r+offset in the set.
func (s ringSet) word(w, offset int) uint64 { return s.window(w<<6+offset) & valid(w, s.p) }

// counter counts for each of 64 ranks: a number's binary digits are words.
type counter [6]uint64

// add adds one for the ranks of a word.
func (c *counter) add(carry uint64) {
	for i := range c {
		c[i], carry = c[i]^carry, c[i]&carry
	}
}

// dec takes one away where there is something.
func (c *counter) dec() {
	borrow := c.any()
	for i := range c {
		c[i], borrow = c[i]^borrow, borrow&^c[i]
	}
}

// any is the ranks that do not have 0.
func (c *counter) any() uint64 {
	some := uint64(0)
	for i := range c {
		some |= c[i]
	}
	return some
}

// at is the number of one rank.
func (c *counter) at(bit int) int {
	n := uint64(0)
	for i := range c {
		n |= c[i] >> bit & 1 << i
	}
	return int(n)
}

// most is the largest number.
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
