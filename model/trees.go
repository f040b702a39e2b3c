// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 3.2, and Karp et
// al., Optimal Broadcast and Summation in the LogP Model (SPAA 1993).
//
// A process that is colored at time c and sends to its children one after the
// other colors the i-th, counted from 0, at c + i·o + 2o+L. The latency of a
// tree is the largest such time. For any tree it is found by a walk; the trees
// of the paper also have closed forms, for every P and not only for full trees.
//
// Cost: the walk asks for every child once and remembers one send for each
// level; the closed forms take O(log² P) steps, O(log³ P) for Lamé trees.

package model

import (
	"sort"

	"github.com/coppice-go/coppice/topology"
)

// TreeLatency is the time at which t has colored its last process, without
// failures.
func TreeLatency(t topology.Tree, l, o int) int { return treeTime(t, o, 2*o+l) }

// treeTime is the time at which t has colored its last process if processes send
// at every interval and a message takes effect after the delay.
func treeTime[T int | float64](t topology.Tree, interval, delay T) (last T) {
	t = topology.Canonical(t) // latency is a matter of shape
	type send struct {
		from, i, to int
		colored     T // when from was
	}
	var pending []send // at most one for each process on the way down
	for r, colored := t.Root(), T(0); ; {
		last = max(last, colored)
		if to := t.Child(r, 0); to >= 0 {
			pending = append(pending, send{r, 0, to, colored})
		}
		if len(pending) == 0 {
			return last
		}
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if to := t.Child(s.from, s.i+1); to >= 0 {
			pending = append(pending, send{s.from, s.i + 1, to, s.colored})
		}
		r, colored = s.to, s.colored+T(s.i)*interval+delay
	}
}

// OptimalLatency is the latency of the optimal tree of p processes: the least t
// with R(t) ≥ p, which no broadcast can beat.
func OptimalLatency(p, l, o int) int { return colorTime(p, o, 2*o+l) }

// BinomialLatency is the latency of the binomial tree of p processes.
func BinomialLatency(p, l, o int) int { return LameLatency(1, p, l, o) }

// LameLatency is the latency of the Lamé tree of order k with p processes, also
// where it is not made for L and o.
//
// A process whose ancestors and itself were sent to after m sends in all, at
// depth d, has c = m + k·d in the steps that define the tree and is colored at
// m·o + d·(2o+L) = c·o + d·(2o+L−k·o). So of the processes of a step the deepest
// is last, or the least deep if sends are slower than the tree takes them to be.
func LameLatency(k, p, l, o int) int {
	if p == 1 {
		return 0
	}
	slack := 2*o + l - k*o
	c := colorTime(p, 1, k)
	if slack < 0 {
		return c*o + slack // a child of the root, the first of the last step
	}
	n := p - colored(c-1, 1, k, p) // processes of the last step; their parents are the first n
	return max(
		(c-1)*o+lameDepth(c-1, k)*slack,
		c*o+(1+lameDepthOfFirst(n, k))*slack,
	)
}

// lameDepth is the depth of a full Lamé tree of order k after step t.
func lameDepth(t, k int) int { return t / k }

// lameDepthOfFirst is the greatest depth of the first n ranks of a Lamé tree.
func lameDepthOfFirst(n, k int) int {
	if n == 1 {
		return 0
	}
	c := colorTime(n, 1, k)
	return max(lameDepth(c-1, k), 1+lameDepthOfFirst(n-colored(c-1, 1, k, n), k))
}

// KAryLatency is the latency of the k-ary tree of p processes.
//
// A process at level ℓ is colored at ℓ·(2o+L) + s·o, where s is the sum of the
// ℓ digits to base k of its place in the level. So the last process is the one
// with the largest sum in the last level, as far as that is filled, or in the
// level above.
func KAryLatency(k, p, l, o int) int {
	k = min(k, p) // more children than processes change nothing
	if k <= 1 {
		return (p - 1) * (2*o + l)
	}
	level, start, width := 0, 0, 1
	for start+width < p {
		start += width
		width *= k
		level++
	}
	above := (level - 1) * (2*o + l + (k-1)*o)
	return max(above, level*(2*o+l)+digitSumMax(p-start-1, k)*o)
}

// digitSumMax is the largest sum of digits to base k of the numbers 0 … n.
func digitSumMax(n, k int) int {
	best := 0
	for i := 0; n > 0; i, n = i+1, n/k {
		digit := n % k
		best += digit
		if digit > 0 { // one less here, and the i digits below are free
			best = max(best, digit-1+i*(k-1))
		}
	}
	return best
}

// colorTime is the least t with R(t) ≥ n, for processes that send every o, first
// after d.
func colorTime(n, o, d int) int {
	// The root alone colors one more process every o.
	return sort.Search(d+n*o, func(t int) bool { return colored(t, o, d, n) >= n })
}

// colored is R(t), equation (1) with steps of o and delay d, or at least n if
// it is so large.
//
// A process at depth x is colored by t if its ancestors made at most
// m = ⌊(t−x·d)/o⌋ sends in all before those that lead to it, and m sends can be
// spread over x ancestors in C(m+x, x) ways. R(t) is the sum over all x.
func colored(t, o, d, n int) int {
	sum := 0
	for x := 0; x*d <= t && sum < n; x++ {
		sum += choose((t-x*d)/o+x, x, n)
	}
	return sum
}

// choose is the binomial coefficient C(a, b), or n if it is larger than n.
func choose(a, b, n int) int {
	c := 1
	for i := 1; i <= min(b, a-b); i++ {
		c = c * (a - min(b, a-b) + i) / i // below 2^63, since c < n ≤ 2^31 and a < 2^32
		if c >= n {
			return n
		}
	}
	return c
}
