// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 3.2, where R(t)
// counts the ranks that exist after iteration t.
//
// Interleaved trees number their ranks step by step: level by level in a k-ary
// tree, send time by send time in the others. The running count R(t) of ranks
// then says everything about a tree, and the step of a rank r is the least t
// with R(t) > r. The table of R has one entry a step, not one a rank.
//
// Cost: one entry of memory a step; the step of a rank in O(log d) where d is
// the number of steps in which the tree doubles, O(1) for binomial and k-ary.

package topology

import "math/bits"

// timeline is the running count of the ranks of a tree.
type timeline struct {
	// count[t] is R(t), the number of ranks of steps 0 … t. The last entry,
	// and only it, is at least the size of the tree.
	count []int
	// span[n] bounds the steps of the ranks that have n significant bits.
	span [32]struct{ first, last int32 }
}

// makeTimeline indexes the counts, the last of which reaches p.
func makeTimeline(count []int, p int) timeline {
	l := timeline{count: count}
	t := int32(0)
	for n := range l.span {
		lo, hi := 1<<n>>1, min(1<<n, p)-1
		if lo > hi {
			break
		}
		for l.count[t] <= lo {
			t++
		}
		l.span[n].first = t
		for l.count[t] <= hi {
			t++
		}
		l.span[n].last = t
	}
	return l
}

// step returns the least t with R(t) > r.
func (l *timeline) step(r int) int {
	s := l.span[bits.Len(uint(r))&31]
	lo, hi := int(s.first), int(s.last)
	for lo < hi {
		if mid := (lo + hi) / 2; l.count[mid] > r {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// before returns R(t−1), the number of ranks of the steps before t.
func (l *timeline) before(t int) int {
	if t <= 0 {
		return 0
	}
	return l.count[t-1]
}

// end returns the last step of the tree.
func (l *timeline) end() int { return len(l.count) - 1 }
