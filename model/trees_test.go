package model

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coppice-go/coppice/topology"
)

// The other trees of the paper have closed forms, too: O(log² P) steps, O(log³ P) for Lamé trees.

// binomialLatency is the latency of the binomial tree of p processes.
func binomialLatency(p, l, o int) int { return lameLatency(1, p, l, o) }

// lameLatency is the latency of the Lamé tree of order k with p processes, also
// where it is not made for L and o.
//
// A process whose ancestors and itself were sent to after m sends in all, at
// depth d, has c = m + k·d in the steps that define the tree and is colored at
// m·o + d·(2o+L) = c·o + d·(2o+L−k·o). So of the processes of a step the deepest
// is last, or the least deep if sends are slower than the tree takes them to be.
func lameLatency(k, p, l, o int) int {
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

// karyLatency is the latency of the k-ary tree of p processes.
//
// A process at level ℓ is colored at ℓ·(2o+L) + s·o, where s is the sum of the
// ℓ digits to base k of its place in the level. So the last process is the one
// with the largest sum in the last level, as far as that is filled, or in the
// level above.
func karyLatency(k, p, l, o int) int {
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

// closed pairs each closed form with the tree that it is about.
var closed = []struct {
	shape   string
	latency func(p, l, o int) int
}{
	{"binomial", binomialLatency},
	{"optimal", OptimalLatency},
	{"kary:1", func(p, l, o int) int { return karyLatency(1, p, l, o) }},
	{"kary:2", func(p, l, o int) int { return karyLatency(2, p, l, o) }},
	{"kary:3", func(p, l, o int) int { return karyLatency(3, p, l, o) }},
	{"kary:7", func(p, l, o int) int { return karyLatency(7, p, l, o) }},
	{"kary:1000000", func(p, l, o int) int { return karyLatency(1000000, p, l, o) }},
	{"lame:2", func(p, l, o int) int { return lameLatency(2, p, l, o) }},
	{"lame:3", func(p, l, o int) int { return lameLatency(3, p, l, o) }},
	{"lame:8", func(p, l, o int) int { return lameLatency(8, p, l, o) }},
	{"lame:30", func(p, l, o int) int { return lameLatency(30, p, l, o) }},
}

func tree(t testing.TB, name string, p int, order topology.Order, l, o int) topology.Tree {
	t.Helper()
	shape, err := topology.ParseShape(name)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := shape.Tree(p, order, l, o)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// slowLatency colors rank by rank: parents come first in interleaved trees.
func slowLatency(t topology.Tree, l, o int) int {
	last := 0
	colored := make([]int, t.Size())
	for r := range t.Size() {
		last = max(last, colored[r])
		for i := 0; t.Child(r, i) >= 0; i++ {
			colored[t.Child(r, i)] = colored[r] + i*o + 2*o + l
		}
	}
	return last
}

func TestClosedFormsAndWalkAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range closed {
		for _, lo := range [][2]int{{0, 1}, {1, 1}, {2, 1}, {7, 1}, {40, 1}, {1, 2}, {3, 2}, {4, 2}, {2, 5}, {17, 5}} {
			l, o := lo[0], lo[1]
			check := func(p int) {
				interleaved := tree(t, c.shape, p, topology.Interleaved, l, o)
				want := slowLatency(interleaved, l, o)
				if got := TreeLatency(interleaved, l, o); got != want {
					t.Fatalf("%s, L=%d, o=%d, P=%d: walk says %d, want %d", c.shape, l, o, p, got, want)
				}
				if got := c.latency(p, l, o); got != want {
					t.Fatalf("%s, L=%d, o=%d, P=%d: closed form says %d, want %d", c.shape, l, o, p, got, want)
				}
			}
			for p := 1; p <= 300; p++ {
				check(p)
			}
			for range 5 {
				check(300 + rng.IntN(20000))
			}
		}
	}
}

func TestLatencyIsAMatterOfShape(t *testing.T) {
	for _, c := range closed[:4] {
		const p, l, o = 100, 3, 2
		want := TreeLatency(tree(t, c.shape, p, topology.Interleaved, l, o), l, o)
		inOrder := topology.Rooted(tree(t, c.shape, p, topology.InOrder, l, o), 17)
		for _, other := range []topology.Tree{inOrder, topology.Tabulate(inOrder)} {
			if got := TreeLatency(other, l, o); got != want {
				t.Errorf("%s: %d in-order, %d interleaved", c.shape, got, want)
			}
		}
		acks := AckLatency(tree(t, c.shape, p, topology.Interleaved, l, o), l, o)
		if got := AckLatency(topology.Tabulate(inOrder), l, o); got != acks {
			t.Errorf("%s: acknowledged at %d in-order, %d interleaved", c.shape, got, acks)
		}
	}
}

func TestKnownLatencies(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"optimal N=1024, L=O=1 (papers)", OptimalLatency(1024, 1, 1), 20},
		{"optimal L=3, o=2, P=65536 (papers)", OptimalLatency(65536, 3, 2), 68},
		{"binomial, full: log₂ P · (2o+L)", binomialLatency(1<<31, 2, 1), 31 * 4},
		{"Lamé made for L and o is optimal", lameLatency(4, 1<<31, 2, 1), OptimalLatency(1<<31, 2, 1)},
		{"binary, full: 2 levels", karyLatency(2, 7, 2, 1), 2 * (4 + 1)},
		{"4-ary", karyLatency(4, 1<<31, 2, 1), 107},
		{"chain", karyLatency(1, 1<<31, 1<<30, 1<<30), (1<<31 - 1) * 3 << 30},
		{"a unit of 10^6", OptimalLatency(65536, 3_000_000, 2_000_000), 68_000_000},
		{"nobody to send to", OptimalLatency(1, 2, 1), 0},
		{"no children for nobody", karyLatency(1<<60+1, 1, 0, 8), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
}

// At 2^31 ranks there is no walk, but more processes never take less time and
// the optimal tree is never slower.
func TestClosedFormsAreMonotoneUpToTheLargestSize(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		l, o := rng.IntN(50), 1+rng.IntN(20)
		p := 2 + rng.IntN(topology.SizeMax-2)
		best := OptimalLatency(p, l, o)
		for _, c := range closed {
			a, b := c.latency(p, l, o), c.latency(p+1, l, o)
			if a > b || a < best {
				t.Fatalf("%s, L=%d, o=%d: %d at P=%d, %d one more, optimal %d", c.shape, l, o, a, p, b, best)
			}
		}
	}
}

// tickedAcks lets every receive port tick through its acknowledgements.
func tickedAcks(t topology.Tree, l, o int) int {
	p := t.Size()
	colored := make([]int, p)
	for r := range p {
		for i := 0; t.Child(r, i) >= 0; i++ {
			colored[t.Child(r, i)] = colored[r] + i*o + 2*o + l
		}
	}
	acked := make([]int, p)
	for r := p - 1; r >= 0; r-- { // children come last in interleaved trees
		arrived := map[int]int{} // how many at a time
		n := 0
		for i := 0; t.Child(r, i) >= 0; i++ {
			arrived[acked[t.Child(r, i)]+o+l]++
			n++
		}
		// The port, tick by tick: queue holds messages, busy the time left.
		queue, busy, now := 0, 0, colored[r]
		for ; n > 0; now++ {
			queue += arrived[now]
			if busy == 0 && queue > 0 {
				queue--
				busy = o
			}
			if busy > 0 {
				if busy--; busy == 0 {
					n--
				}
			}
		}
		acked[r] = now
	}
	return acked[0]
}

func TestAckLatencyEqualsAPortThatTicks(t *testing.T) {
	for _, c := range closed {
		for _, lo := range [][2]int{{0, 1}, {2, 1}, {3, 2}, {1, 5}} {
			l, o := lo[0], lo[1]
			for p := 1; p <= 120; p++ {
				tr := tree(t, c.shape, p, topology.Interleaved, l, o)
				if got, want := AckLatency(tr, l, o), tickedAcks(tr, l, o); got != want {
					t.Fatalf("%s, L=%d, o=%d, P=%d: %d, want %d", c.shape, l, o, p, got, want)
				}
			}
		}
	}
}

func BenchmarkTreeLatency(b *testing.B) {
	for _, p := range []int{1 << 20, 1 << 24} {
		for _, name := range []string{"binomial", "kary:4", "lame:2", "optimal"} {
			tr := tree(b, name, p, topology.Interleaved, 3, 2)
			b.Run(fmt.Sprintf("%s/P=%d", name, p), func(b *testing.B) {
				for b.Loop() {
					TreeLatency(tr, 3, 2)
				}
			})
		}
	}
}

func BenchmarkAckLatency(b *testing.B) {
	for _, name := range []string{"binomial", "kary:4", "lame:2", "optimal"} {
		tr := tree(b, name, 1<<20, topology.Interleaved, 3, 2)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				AckLatency(tr, 3, 2)
			}
		})
	}
}

func BenchmarkClosedForm(b *testing.B) {
	for _, c := range closed {
		b.Run(c.shape, func(b *testing.B) {
			for b.Loop() {
				c.latency(1_999_999_999, 3, 2)
			}
		})
	}
}
