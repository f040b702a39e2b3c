// Source: Küttler et al., Corrected Trees (PPoPP 2019), sections 3.2.2 and
// 3.2.3, equations (1) and (2); the optimal tree is that of Karp et al.,
// Optimal Broadcast and Summation in the LogP Model (SPAA 1993).
//
// A process sends every o steps and sends first D steps after its parent began
// to send to it. Ranks are numbered in the order in which their parents begin
// to send to them, ties by the parent's rank. Binomial (o=1, D=1), Lamé of order
// k (o=1, D=k) and optimal (D=2o+L) trees are this one tree.
//
// The paper's r + R(i+o+L) holds where o divides L. In general not all colored
// processes send at a given time, only those whose time of coloring c agrees
// with it modulo o, and the child's rank counts those instead of all.
//
// Cost: a table of R with one entry for each step of the broadcast; Child and
// Parent in O(log) of it, O(1) for the binomial tree.

package topology

import (
	"fmt"
	"sort"
)

// stepsMax bounds the table of R: 32 MiB.
const stepsMax = 1 << 22

// growth is a binomial, Lamé or optimal tree in interleaved numbering. Time is
// counted in steps of gcd(o, D).
type growth struct {
	timeline     // R(t), the number of ranks colored by time t
	p, o, d  int // P, o, D
}

// newGrowth returns the tree of p ranks that send every o steps, first after d;
// 1 ≤ o ≤ d.
func newGrowth(p, o, d int) (*growth, error) {
	g := GCD(o, d)
	o, d = o/g, d/g
	var count []int
	for t := 0; t == 0 || count[t-1] < p; t++ {
		if t == stepsMax {
			return nil, fmt.Errorf("tree of %d ranks that send first after %d steps and then every %d; allowed: what reaches all in %d steps", p, d, o, stepsMax)
		}
		if t < d {
			count = append(count, 1)
		} else {
			count = append(count, count[t-o]+count[t-d]) // eq. (1), with steps of o
		}
	}
	return &growth{timeline: makeTimeline(count, p), p: p, o: o, d: d}, nil
}

func (g *growth) Size() int { return g.p }
func (g *growth) Root() int { return 0 }

// Child finds what r's i-th send starts: of the ranks colored d steps later it
// comes after those of all senders below r.
func (g *growth) Child(r, i int) int {
	if uint(i) >= uint(len(g.count)) {
		return -1
	}
	c := g.step(r)
	t := c + i*g.o
	if t+g.d > g.end() {
		return -1 // every rank is colored by t+D−1
	}
	// Senders below r: all that were colored o, 2o, … before r, and those that
	// were colored together with r and precede it.
	below := g.senders(c-g.o) + r - g.before(c)
	if child := g.before(t+g.d) + below; child < g.p {
		return child
	}
	return -1
}

// Parent inverts Child.
func (g *growth) Parent(r int) int {
	if r == 0 {
		return -1
	}
	t := g.step(r)
	j := r - g.before(t) // r's parent is the j-th sender D earlier
	if g.o == 1 {
		return j // every colored process sends all the time
	}
	// The senders at t−D that were colored by t−D−n·o are those that send then.
	t -= g.d
	n := sort.Search(t/g.o+1, func(n int) bool { return g.senders(t-n*g.o) <= j })
	c := t - (n-1)*g.o // when the parent was colored
	return g.before(c) + j - g.senders(c-g.o)
}

// senders returns E(t), the number of processes that begin to send at time t
// in the endless tree: as many as are colored D later.
func (g *growth) senders(t int) int {
	if t < 0 {
		return 0
	}
	return g.count[t+g.d] - g.count[t+g.d-1]
}

// GCD is the greatest common divisor of two numbers: of steps and what they are counted in, of a stride and a ring.
func GCD(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
