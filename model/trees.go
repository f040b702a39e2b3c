// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 3.2, and Karp et
// al., Optimal Broadcast and Summation in the LogP Model (SPAA 1993).
//
// A process that is colored at time c and sends to its children one after the
// other colors the i-th, counted from 0, at c + i·o + 2o+L. The latency of a
// tree is the largest such time. For any tree it is found by a walk; the optimal
// tree also has a closed form, for every P and not only for full trees.
//
// Cost: the walk asks for every child once and remembers one send for each
// level; the closed form takes O(log² P) steps.

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
