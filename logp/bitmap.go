package logp

import "math/bits"

// bitmap is a set of ranks. Above its words lies a second level with a bit per
// word that is not empty, so that a sparse set is scanned in P/4096 steps.
type bitmap struct {
	words []uint64
	upper []uint64
}

func newBitmap(n int) *bitmap {
	words := (n + 63) / 64
	return &bitmap{words: make([]uint64, words), upper: make([]uint64, (words+63)/64)}
}

func (b *bitmap) has(i int) bool { return b.words[uint(i)>>6]>>(uint(i)&63)&1 != 0 }

func (b *bitmap) set(i int) {
	w := &b.words[uint(i)>>6]
	if *w == 0 {
		b.upper[uint(i)>>12] |= 1 << (uint(i) >> 6 & 63)
	}
	*w |= 1 << (uint(i) & 63)
}

// or puts the ranks of the word with index w into the set.
func (b *bitmap) or(w int, word uint64) {
	b.words[w] |= word
	b.upper[uint(w)>>6] |= 1 << (uint(w) & 63)
}

// setAll puts 0 … n−1 into the set.
func (b *bitmap) setAll(n int) {
	for i := range b.words {
		b.words[i] = ^uint64(0)
	}
	if n&63 != 0 {
		b.words[len(b.words)-1] = 1<<(uint(n)&63) - 1
	}
	for i := range b.upper {
		b.upper[i] = ^uint64(0)
	}
	if r := len(b.words) & 63; r != 0 {
		b.upper[len(b.upper)-1] = 1<<uint(r) - 1
	}
}

func (b *bitmap) clear() {
	clear(b.words)
	clear(b.upper)
}

// longestGap is the length of the longest run of ranks below n that are not in
// the set, on a ring.
func (b *bitmap) longestGap(n int) int {
	longest, last, first := 0, -1, -1
	for u, upper := range b.upper {
		for ; upper != 0; upper &= upper - 1 {
			w := u<<6 + bits.TrailingZeros64(upper)
			for word := b.words[w]; word != 0; word &= word - 1 {
				i := w<<6 + bits.TrailingZeros64(word)
				if first < 0 {
					first = i
				} else {
					longest = max(longest, i-last-1)
				}
				last = i
			}
		}
	}
	if first < 0 {
		return n
	}
	return max(longest, n-1-last+first)
}
