package topology

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// A dumb tree is built rank by rank, as the paper describes it in words.
type dumb struct {
	parent   []int
	children [][]int
}

func newDumb(p int) *dumb {
	d := &dumb{parent: make([]int, p), children: make([][]int, p)}
	for r := range d.parent {
		d.parent[r] = -1
	}
	return d
}

func (d *dumb) link(parent, child int) {
	d.parent[child] = parent
	d.children[parent] = append(d.children[parent], child)
}

func (d *dumb) Size() int { return len(d.parent) }

func (d *dumb) Root() int { return 0 }

func (d *dumb) Parent(r int) int { return d.parent[r] }

func (d *dumb) Child(r, i int) int {
	if i < 0 || i >= len(d.children[r]) {
		return -1
	}
	return d.children[r][i]
}

// inOrder renumbers depth first.
func (d *dumb) inOrder() *dumb {
	out := newDumb(d.Size())
	next := 0
	var visit func(r int) int
	visit = func(r int) int {
		me := next
		next++
		for _, c := range d.children[r] {
			out.link(me, visit(c))
		}
		return me
	}
	visit(0)
	return out
}

// dumbGrowth lets every process send whenever it may, in the order of time and
// rank, until all p ranks are taken.
func dumbGrowth(p, o, d int) *dumb {
	t := newDumb(p)
	first := []int{0} // when a rank may send
	for now := 0; len(first) < p; now++ {
		for r := 0; r < len(first) && len(first) < p; r++ {
			if now >= first[r] && (now-first[r])%o == 0 {
				t.link(r, len(first))
				first = append(first, now+d)
			}
		}
	}
	return t
}

// dumbKAry fills level after level: the first children of all, the second of
// all, and so on.
func dumbKAry(p, k int) *dumb {
	t := newDumb(p)
	next := 1
	for level := []int{0}; next < p; {
		var below []int
		for range k {
			for _, r := range level {
				if next < p {
					t.link(r, next)
					below = append(below, next)
					next++
				}
			}
		}
		level = below
	}
	return t
}

// kind is a shape under test, with its dumb construction.
type kind struct {
	name  string
	build func(p int, order Order) (Tree, error)
	dumb  func(p int) *dumb
	// o does not divide L: Definition 1 is not claimed
	ragged bool
}

func kinds() []kind {
	all := []kind{{
		name:  "binomial",
		build: Binomial,
		dumb:  func(p int) *dumb { return dumbGrowth(p, 1, 1) },
	}}
	for k := 1; k <= 5; k++ {
		all = append(all, kind{
			name:  fmt.Sprintf("kary:%d", k),
			build: func(p int, order Order) (Tree, error) { return KAry(k, p, order) },
			dumb:  func(p int) *dumb { return dumbKAry(p, k) },
		}, kind{
			name:  fmt.Sprintf("lame:%d", k),
			build: func(p int, order Order) (Tree, error) { return Lame(k, p, order) },
			dumb:  func(p int) *dumb { return dumbGrowth(p, 1, k) },
		})
	}
	all = append(all, kind{
		name:  "kary:100",
		build: func(p int, order Order) (Tree, error) { return KAry(100, p, order) },
		dumb:  func(p int) *dumb { return dumbKAry(p, 100) },
	}, kind{
		name:  "lame:100",
		build: func(p int, order Order) (Tree, error) { return Lame(100, p, order) },
		dumb:  func(p int) *dumb { return dumbGrowth(p, 1, 100) },
	})
	for _, lo := range [][2]int{
		{0, 1},
		{1, 1},
		{2, 1},
		{3, 1},
		{8, 1},
		{0, 2},
		{2, 2},
		{4, 2},
		{3, 3},
		{6, 3},
		{8, 4},
		{1, 2},
		{3, 2},
		{5, 2},
		{7, 2},
		{1, 3},
		{2, 3},
		{4, 3},
		{1, 4},
		{2, 4},
		{3, 4},
		{6, 4},
		{1, 5},
		{3, 5},
		{7, 5},
		{1, 20},
		{33, 20},
	} {
		l, o := lo[0], lo[1]
		all = append(all, kind{
			name:   fmt.Sprintf("optimal(L=%d,o=%d)", l, o),
			build:  func(p int, order Order) (Tree, error) { return Optimal(l, o, p, order) },
			dumb:   func(p int) *dumb { return dumbGrowth(p, o, 2*o+l) },
			ragged: l%o != 0,
		})
	}
	return all
}

func (k kind) tree(t testing.TB, p int, order Order) Tree {
	t.Helper()
	tree, err := k.build(p, order)
	if err != nil {
		t.Fatalf("%s of %d ranks: %v", k.name, p, err)
	}
	return tree
}

// sizes are all small ones and a few larger ones.
func sizes() []int {
	var all []int
	for p := 1; p <= 300; p++ {
		all = append(all, p)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		all = append(all, 300+rng.IntN(5000), 300+rng.IntN(700))
	}
	return append(all, 1024, 4096, 4097)
}

// sameTree fails unless both trees give the same answers, including the first
// child that does not exist.
func sameTree(t testing.TB, got, want Tree) {
	t.Helper()
	if got.Size() != want.Size() || got.Root() != want.Root() {
		t.Fatalf("%d ranks below %d, want %d below %d", got.Size(), got.Root(), want.Size(), want.Root())
	}
	if g := got.Child(got.Root(), -1); g != -1 {
		t.Fatalf("P=%d: child −1 of the root is %d", want.Size(), g)
	}
	for r := range want.Size() {
		if g, w := got.Parent(r), want.Parent(r); g != w {
			t.Fatalf("P=%d: parent of %d is %d, want %d", want.Size(), r, g, w)
		}
		for i := 0; ; i++ {
			g, w := got.Child(r, i), want.Child(r, i)
			if g != w {
				t.Fatalf("P=%d: child %d of %d is %d, want %d", want.Size(), i, r, g, w)
			}
			if w < 0 {
				break
			}
		}
	}
}

func TestInterleavedTreesEqualTheirConstructionInWords(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			for _, p := range sizes() {
				want := k.dumb(p)
				got := k.tree(t, p, Interleaved)
				sameTree(t, got, want)
			}
		})
	}
}

func TestInOrderTreesAreTheSameShapesNumberedDepthFirst(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range sizes() {
				sameTree(t, k.tree(t, p, InOrder), k.dumb(p).inOrder())
			}
		})
	}
}

func TestEveryRankButTheRootIsTheChildOfItsParentOnly(t *testing.T) {
	ks := kinds()
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(ks).Draw(t, "kind")
		p := rapid.IntRange(1, 3000).Draw(t, "p")
		order := rapid.SampledFrom([]Order{Interleaved, InOrder}).Draw(t, "order")
		root := rapid.IntRange(0, p-1).Draw(t, "root")
		tree, err := k.build(p, order)
		if err != nil {
			t.Fatal(err)
		}
		tree = Tabulate(Rooted(tree, root))
		seen := make([]bool, p)
		seen[root] = true
		if tree.Root() != root || tree.Parent(root) != -1 {
			t.Fatalf("root %d with parent %d, want %d with −1", tree.Root(), tree.Parent(tree.Root()), root)
		}
		for r := range p {
			for i := 0; tree.Child(r, i) >= 0; i++ {
				c := tree.Child(r, i)
				if seen[c] {
					t.Fatalf("%d is a child twice", c)
				}
				seen[c] = true
				if tree.Parent(c) != r {
					t.Fatalf("%d is child %d of %d, but has parent %d", c, i, r, tree.Parent(c))
				}
			}
		}
		for r, ok := range seen {
			if !ok {
				t.Fatalf("%d is nobody's child", r)
			}
		}
	})
}

func TestLargestTreesAreConsistent(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, k := range kinds() {
		for _, p := range []int{SizeMax, SizeMax - 1, SizeMax/3*2 + 5} {
			tree := k.tree(t, p, Interleaved)
			ranks := []int{0, 1, 2, p/2 - 1, p / 2, p - 2, p - 1}
			for range 40 {
				ranks = append(ranks, rng.IntN(p))
			}
			for _, r := range ranks {
				checkRank(t, k.name, tree, r)
			}
		}
	}
}

func TestLargestFanOutDoesNotOverflow(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, k := range []int{1 << 10, 1<<16 - 1, 1 << 16, 1 << 30, SizeMax - 1, SizeMax, 1 << 62} {
		tree, err := KAry(k, SizeMax, Interleaved)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			r := rng.IntN(SizeMax)
			for _, i := range []int{0, 1, k / 3, k - 1} {
				c := tree.Child(r, i)
				if c != -1 && (c <= r || c >= SizeMax || tree.Parent(c) != r) {
					t.Fatalf("k=%d: child %d of %d is %d", k, i, r, c)
				}
			}
			if parent := tree.Parent(r); r > 0 && (parent < 0 || parent >= r) {
				t.Fatalf("k=%d: parent of %d is %d", k, r, parent)
			}
		}
	}
}

// checkRank fails unless r is among its parent's children and parent of its own.
func checkRank(t *testing.T, name string, tree Tree, r int) {
	t.Helper()
	p := tree.Size()
	for i := 0; ; i++ {
		c := tree.Child(r, i)
		if c == -1 {
			break
		}
		if c <= r || c >= p || tree.Parent(c) != r {
			t.Fatalf("%s, P=%d: child %d of %d is %d, whose parent is %d", name, p, i, r, c, tree.Parent(c))
		}
		if i == 3 && p > 1<<20 { // the others are alike
			break
		}
	}
	if r == 0 {
		return
	}
	parent := tree.Parent(r)
	if parent < 0 || parent >= r {
		t.Fatalf("%s, P=%d: parent of %d is %d", name, p, r, parent)
	}
	for i := 0; ; i++ {
		switch c := tree.Child(parent, i); {
		case c == r:
			return
		case c < 0 || c > r:
			t.Fatalf("%s, P=%d: %d has parent %d but is not its child", name, p, r, parent)
		}
	}
}

func TestTheExamplesOfThePaper(t *testing.T) {
	for _, c := range []struct {
		name string
		tree func() (Tree, error)
		want [][]int
	}{
		{"Figure 3, left: binary, in-order", func() (Tree, error) { return KAry(2, 7, InOrder) }, [][]int{{1, 4}, {2, 3}, {}, {}, {5, 6}, {}, {}}},
		{"Figure 3, right: binary, interleaved", func() (Tree, error) { return KAry(2, 7, Interleaved) }, [][]int{{1, 2}, {3, 5}, {4, 6}, {}, {}, {}, {}}},
		{"Figure 4, right: binomial, interleaved", func() (Tree, error) { return Binomial(8, Interleaved) }, [][]int{{1, 2, 4}, {3, 5}, {6}, {7}, {}, {}, {}, {}}},
		{"Figure 5: Lamé k=3", func() (Tree, error) { return Lame(3, 9, Interleaved) }, [][]int{{1, 2, 3, 4, 6}, {5, 7}, {8}, {}, {}, {}, {}, {}, {}}},
	} {
		tree, err := c.tree()
		if err != nil {
			t.Fatal(err)
		}
		for r, children := range c.want {
			for i, want := range append(children, -1) {
				if got := tree.Child(r, i); got != want {
					t.Errorf("%s: child %d of %d is %d, want %d", c.name, i, r, got, want)
				}
			}
		}
	}
}

func TestOptimalEqualsLameOfOrder2oPlusL(t *testing.T) {
	for _, p := range []int{1, 2, 9, 100, 5000} {
		optimal, _ := Optimal(2, 1, p, Interleaved)
		lame, _ := Lame(4, p, Interleaved)
		sameTree(t, optimal, lame)
		scaled, _ := Optimal(20, 10, p, Interleaved)
		sameTree(t, scaled, lame)
	}
}
