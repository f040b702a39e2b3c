package topology

import (
	"container/heap"
	"fmt"
	"testing"
)

// finish walks the tree under LogP: child i of a process colored at c is
// colored at c + i·o + 2o+L.
func finish(t Tree, l, o int) int {
	last := 0
	colored := make([]int, t.Size())
	for r := range t.Size() { // parents come first in interleaved trees
		last = max(last, colored[r])
		for i := 0; t.Child(r, i) >= 0; i++ {
			colored[t.Child(r, i)] = colored[r] + i*o + 2*o + l
		}
	}
	return last
}

// times is a priority queue of send times.
type times []int

func (q times) Len() int           { return len(q) }
func (q times) Less(i, j int) bool { return q[i] < q[j] }
func (q times) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *times) Push(x any)        { *q = append(*q, x.(int)) }

func (q *times) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

func TestOptimalTreeIsAsFastAsGreedyBroadcast(t *testing.T) {
	for l := 0; l <= 8; l++ {
		for o := 1; o <= 5; o++ {
			// The process that can send earliest sends next: nothing reaches p processes sooner.
			sends := &times{0}
			last := 0
			for p := 1; p <= 500; p++ {
				if p > 1 {
					s := heap.Pop(sends).(int)
					last = s + 2*o + l
					heap.Push(sends, s+o)
					heap.Push(sends, last)
				}
				tree, err := Optimal(l, o, p, Interleaved)
				if err != nil {
					t.Fatal(err)
				}
				if got := finish(tree, l, o); got != last {
					t.Fatalf("L=%d, o=%d, P=%d: finishes at %d, want %d", l, o, p, got, last)
				}
			}
		}
	}
}

func TestOptimalTreeMeetsTheKnownLatencies(t *testing.T) {
	for _, c := range []struct{ l, o, p, want int }{
		{1, 1, 1024, 20},  // papers: opt at N=1024, L=O=1
		{3, 2, 65536, 68}, // o does not divide L; the authors' simulator takes 224
	} {
		tree, err := Optimal(c.l, c.o, c.p, Interleaved)
		if err != nil {
			t.Fatal(err)
		}
		if got := finish(tree, c.l, c.o); got != c.want {
			t.Errorf("L=%d, o=%d, P=%d: finishes at %d, want %d", c.l, c.o, c.p, got, c.want)
		}
	}
}

// Equation (2), as printed: r' = r + R(i+k−1) for i ≥ s', R(s') > r.
func TestLameChildrenAreThoseOfEquation2(t *testing.T) {
	for k := 1; k <= 6; k++ {
		R := func(t int) int { return 0 }
		memo := map[int]int{}
		R = func(t int) int {
			switch {
			case t < 0:
				return 0
			case t < k:
				return 1
			}
			if memo[t] == 0 {
				memo[t] = R(t-1) + R(t-k)
			}
			return memo[t]
		}
		const p = 400
		tree, err := Lame(k, p, Interleaved)
		if err != nil {
			t.Fatal(err)
		}
		for r := range p {
			s := 0
			for R(s) <= r {
				s++
			}
			for i := s; ; i++ {
				want := r + R(i+k-1)
				if want >= p {
					want = -1
				}
				if got := tree.Child(r, i-s); got != want {
					t.Fatalf("k=%d: child %d of %d is %d, want %d", k, i-s, r, got, want)
				}
				if want < 0 {
					break
				}
			}
		}
	}
}

func TestGrowthRejectsTablesWithoutEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{
		{"lame", second(Lame(stepsMax, 2, Interleaved))},
		{"optimal", second(Optimal(timeMax-1, 1<<30, 2, Interleaved))},
		{"wide", second(Lame(stepsMax/2+1, SizeMax, InOrder))},
	} {
		if c.err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	if _, err := Optimal(timeMax, timeMax, 1000, Interleaved); err != nil {
		t.Errorf("L=o is Lamé of order 3, whatever the unit: %v", err)
	}
}

func second(_ Tree, err error) error { return err }

func BenchmarkChild(b *testing.B) {
	benchmarkTrees(b, func(b *testing.B, t Tree) {
		p := t.Size()
		for i, r := 0, 0; b.Loop(); i++ {
			if r += 7919; r >= p {
				r -= p
			}
			sink = t.Child(r, i&1)
		}
	})
}

func BenchmarkParent(b *testing.B) {
	benchmarkTrees(b, func(b *testing.B, t Tree) {
		p := t.Size()
		for r := 0; b.Loop(); {
			if r += 7919; r >= p {
				r -= p
			}
			sink = t.Parent(r)
		}
	})
}

var sink int

func benchmarkTrees(b *testing.B, bench func(*testing.B, Tree)) {
	for _, name := range []string{"binomial", "kary:2", "kary:4", "lame:2", "lame:5", "optimal"} {
		shape, err := ParseShape(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, order := range []Order{Interleaved, InOrder} {
			tree, err := shape.Tree(1<<20, order, 3, 2)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%s", name, order), func(b *testing.B) {
				b.ReportAllocs()
				bench(b, tree)
			})
		}
	}
}
