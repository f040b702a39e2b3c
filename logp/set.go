package logp

import "math/bits"

// set is a set of ranks, a bit each.
type set []uint64

func newSet(n int) set { return make(set, (n+63)/64) }

func (s set) has(i int) bool { return s[uint(i)>>6]>>(uint(i)&63)&1 != 0 }

func (s set) set(i int) { s[uint(i)>>6] |= 1 << (uint(i) & 63) }

// valid returns the ranks below n that the word with index w stands for.
func valid(w, n int) uint64 {
	if beyond := (w+1)<<6 - n; beyond > 0 {
		return ^uint64(0) >> beyond
	}
	return ^uint64(0)
}

// others returns the ranks below n of the word with index w that are not in the set.
func (s set) others(w, n int) uint64 { return ^s[w] & valid(w, n) }

// longestGap returns the length of the longest run of ranks below n that are not in the set, on a ring.
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
