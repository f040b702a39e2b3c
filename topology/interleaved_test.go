package topology

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// Lemma 1, for k-ary trees too, full and cut at any P.
func TestInterleavedTreesSatisfyDefinition1(t *testing.T) {
	for _, k := range kinds() {
		if k.ragged {
			continue
		}
		for p := 1; p <= 300; p++ {
			if err := CheckInterleaved(k.tree(t, p, Interleaved)); err != nil {
				t.Fatalf("%s, P=%d: %v", k.name, p, err)
			}
		}
		rng := rand.New(rand.NewPCG(5, 6))
		for _, p := range []int{512, 300 + rng.IntN(1500)} {
			if err := CheckInterleaved(k.tree(t, p, Interleaved)); err != nil {
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
		if err := CheckInterleaved(tree); (err == nil) != want {
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
			if err := CheckInterleaved(Rooted(k.tree(t, 100, Interleaved), root)); err != nil {
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
		if err := CheckInterleaved(tree); (err == nil) != want {
			t.Fatalf("root %d, parents before turning %v: %v, want interleaved = %v", tree.Root(), random.parent, err, want)
		}
	}
	if seen[true] < 100 || seen[false] < 100 {
		t.Errorf("only %d interleaved and %d other trees tried", seen[true], seen[false])
	}
}

func TestCheckInterleavedNamesTheOffendingPair(t *testing.T) {
	tree, err := Binomial(8, InOrder)
	if err != nil {
		t.Fatal(err)
	}
	err = CheckInterleaved(tree)
	if err == nil || !strings.Contains(err.Error(), "subtree of 0 the neighbours 3 and 4 both descend from 1") {
		t.Errorf("in-order binomial tree: %v", err)
	}
}
