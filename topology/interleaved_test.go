package topology

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Source: Küttler et al., Corrected Trees (PPoPP 2019), Definition 1.
//
// A tree is interleaved if, for each of its subtrees T_s and the ring R_s of the
// subtree's ranks in order, any two distinct neighbours on R_s either descend
// from each other or have only root(T_s) as a common ancestor. Then no failure
// below root(T_s) can take away two neighbours at once, unless one of them is
// the other's ancestor.
//
// Cost: O(P²) time and O(P) memory.

// checkInterleaved returns nil if t is interleaved (Definition 1), and
// otherwise an error that names a subtree and a pair of neighbours that break
// the rule.
func checkInterleaved(t Tree) error {
	number, rank := depthFirst(t)
	// The subtree of s is the run of depth-first numbers number[s] … last[s].
	last := make([]int32, t.Size())
	for n := t.Size() - 1; n >= 0; n-- {
		r := rank[n]
		last[r] = max(last[r], int32(n))
		if n > 0 {
			parent := t.Parent(int(r))
			last[parent] = max(last[parent], last[r])
		}
	}
	holds := func(s, r int) bool { return number[s] <= number[r] && number[r] <= last[s] }

	for s := range t.Size() {
		first, prev := -1, -1
		pair := func(u, v int) error {
			if holds(u, v) || holds(v, u) {
				return nil
			}
			common := t.Parent(u)
			for !holds(common, v) {
				common = t.Parent(common)
			}
			if common == s {
				return nil
			}
			return fmt.Errorf("not interleaved: in the subtree of %d the neighbours %d and %d both descend from %d", s, u, v, common)
		}
		for r := range t.Size() {
			if !holds(s, r) {
				continue
			}
			if first < 0 {
				first = r
			} else if err := pair(prev, r); err != nil {
				return err
			}
			prev = r
		}
		if err := pair(prev, first); err != nil {
			return err
		}
	}
	return nil
}

// Lemma 1, for k-ary trees too, full and cut at any P.
func TestInterleavedTreesSatisfyDefinition1(t *testing.T) {
	for _, k := range kinds() {
		if k.ragged {
			continue
		}
		for p := 1; p <= 300; p++ {
			if err := checkInterleaved(k.tree(t, p, Interleaved)); err != nil {
				t.Fatalf("%s, P=%d: %v", k.name, p, err)
			}
		}
		rng := rand.New(rand.NewPCG(5, 6))
		for _, p := range []int{512, 300 + rng.IntN(1500)} {
			if err := checkInterleaved(k.tree(t, p, Interleaved)); err != nil {
				t.Fatalf("%s, P=%d: %v", k.name, p, err)
			}
		}
	}
}

// The limit that the comment on Optimal states.
func TestOptimalTreeIsNotInterleavedWhereODoesNotDivideL(t *testing.T) {
	for p, want := range map[int]bool{14: true, 15: false} {
		tree, err := Optimal(1, 2, p, Interleaved)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkInterleaved(tree); (err == nil) != want {
			t.Errorf("L=1, o=2, P=%d: %v, want interleaved = %v", p, err, want)
		}
	}
}

func TestTurnedInterleavedTreesStayInterleaved(t *testing.T) {
	for _, k := range kinds() {
		if k.ragged {
			continue
		}
		for _, root := range []int{1, 17, 99} {
			if err := checkInterleaved(Rooted(k.tree(t, 100, Interleaved), root)); err != nil {
				t.Fatalf("%s, root %d: %v", k.name, root, err)
			}
		}
	}
}

// ancestors lists the ancestors of r, r first.
func ancestors(t Tree, r int) []int {
	var up []int
	for ; r >= 0; r = t.Parent(r) {
		up = append(up, r)
	}
	return up
}

// byTheLetter is Definition 1, read word by word.
func byTheLetter(t Tree) bool {
	for s := range t.Size() {
		var ring []int
		for r := range t.Size() {
			for _, a := range ancestors(t, r) {
				if a == s {
					ring = append(ring, r)
				}
			}
		}
		for i, u := range ring {
			v := ring[(i+1)%len(ring)]
			if u == v {
				continue
			}
			descend, below := false, 0
			for _, a := range ancestors(t, u) {
				for _, b := range ancestors(t, v) {
					if a == b && (a == u || a == v) {
						descend = true
					}
					if a == b && a != s && len(ancestors(t, a)) > len(ancestors(t, s)) {
						below++
					}
				}
			}
			if !descend && below > 0 {
				return false
			}
		}
	}
	return true
}

func TestCheckInterleavedReadsDefinition1ByTheLetter(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	seen := map[bool]int{}
	for range 3000 {
		// Any tree: the root anywhere, children before or after their parents.
		random := newDumb(2 + rng.IntN(9))
		name := append([]int{0}, rng.Perm(random.Size()-1)...)
		for r := 1; r < random.Size(); r++ {
			name[r]++
			random.link(name[rng.IntN(r)], name[r])
		}
		tree := Rooted(random, rng.IntN(random.Size()))
		want := byTheLetter(tree)
		seen[want]++
		if err := checkInterleaved(tree); (err == nil) != want {
			t.Fatalf("root %d, parents before turning %v: %v, want interleaved = %v", tree.Root(), random.parent, err, want)
		}
	}
	if seen[true] < 100 || seen[false] < 100 {
		t.Errorf("only %d interleaved and %d other trees tried", seen[true], seen[false])
	}
}

func TestCheckInterleavedNamesTheOffendingPair(t *testing.T) {
	for _, c := range []struct {
		shape string
		p     int
		want  string
	}{
		{"binomial", 8, "not interleaved: in the subtree of 0 the neighbours 3 and 4 both descend from 1"},
		{"kary:2", 7, "not interleaved: in the subtree of 0 the neighbours 2 and 3 both descend from 1"},
	} {
		shape, err := ParseShape(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := shape.Tree(c.p, InOrder, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkInterleaved(tree); err == nil || err.Error() != c.want {
			t.Errorf("in-order %s tree: %v, want %q", c.shape, err, c.want)
		}
	}
}
