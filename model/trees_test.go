package model

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coppice-go/coppice/topology"
)

// closed pairs each closed form with the tree that it is about.
var closed = []struct {
	shape   string
	latency func(p, l, o int) int
}{
	{"binomial", BinomialLatency},
	{"optimal", OptimalLatency},
	{"kary:1", func(p, l, o int) int { return KAryLatency(1, p, l, o) }},
	{"kary:2", func(p, l, o int) int { return KAryLatency(2, p, l, o) }},
	{"kary:3", func(p, l, o int) int { return KAryLatency(3, p, l, o) }},
	{"kary:7", func(p, l, o int) int { return KAryLatency(7, p, l, o) }},
	{"kary:1000000", func(p, l, o int) int { return KAryLatency(1000000, p, l, o) }},
	{"lame:2", func(p, l, o int) int { return LameLatency(2, p, l, o) }},
	{"lame:3", func(p, l, o int) int { return LameLatency(3, p, l, o) }},
	{"lame:8", func(p, l, o int) int { return LameLatency(8, p, l, o) }},
	{"lame:30", func(p, l, o int) int { return LameLatency(30, p, l, o) }},
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
		{"binomial, full: log₂ P · (2o+L)", BinomialLatency(1<<31, 2, 1), 31 * 4},
		{"Lamé made for L and o is optimal", LameLatency(4, 1<<31, 2, 1), OptimalLatency(1<<31, 2, 1)},
		{"binary, full: 2 levels", KAryLatency(2, 7, 2, 1), 2 * (4 + 1)},
		{"chain", KAryLatency(1, 1<<31, 1<<30, 1<<30), (1<<31 - 1) * 3 << 30},
		{"a unit of 10^6", OptimalLatency(65536, 3_000_000, 2_000_000), 68_000_000},
		{"nobody to send to", OptimalLatency(1, 2, 1), 0},
		{"no children for nobody", KAryLatency(1<<60+1, 1, 0, 8), 0},
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
