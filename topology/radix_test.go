package topology

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRadixTreeIsTheInterleavedTree(t *testing.T) {
	for _, a := range []int{2, 4, 8, 64, 1 << 16, 1 << 31} {
		for _, p := range []int{1, 2, 3, 5, 6, 21, 22, 300, 5000} {
			radix, err := Radix(a, p)
			if err != nil {
				t.Fatal(err)
			}
			kary, _ := KAry(a, p, Interleaved)
			sameTree(t, radix, kary)
		}
	}
}

func TestRadixPathLeadsFromTheRootToTheNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := 1 << rapid.IntRange(1, 31).Draw(t, "b")
		p := rapid.IntRange(1, SizeMax).Draw(t, "p")
		r := rapid.IntRange(0, p-1).Draw(t, "r")
		tree, err := Radix(a, p)
		if err != nil {
			t.Fatal(err)
		}
		at := tree.Root()
		for level, link := range tree.Path(r) {
			if tree.Level(at) != level {
				t.Fatalf("%d is at level %d, want %d", at, tree.Level(at), level)
			}
			next := tree.Child(at, link)
			if tree.Parent(next) != at {
				t.Fatalf("%d, child %d of %d, has parent %d", next, link, at, tree.Parent(next))
			}
			at = next
		}
		if at != r || tree.Level(r) != len(tree.Path(r)) {
			t.Fatalf("path %v leads to %d, want %d at level %d", tree.Path(r), at, r, tree.Level(r))
		}
		for _, i := range []int{-1, a} {
			if c := tree.Child(r, i); c != -1 {
				t.Fatalf("child %d of %d is %d", i, r, c)
			}
		}
	})
}

func TestRadixLevelsAreFullAtTheSizesOfTheThesis(t *testing.T) {
	for a, sizes := range map[int][]int{2: {1, 3, 7, 15}, 4: {1, 5, 21}} {
		tree, err := Radix(a, 100)
		if err != nil {
			t.Fatal(err)
		}
		for level, size := range sizes {
			if got := []int{tree.Level(size - 1), tree.Level(size)}; !slices.Equal(got, []int{level, level + 1}) {
				t.Errorf("a=%d: levels of %d and %d are %v", a, size-1, size, got)
			}
		}
	}
}

func TestRadixWantsAPowerOfTwo(t *testing.T) {
	for _, a := range []int{-2, 0, 1, 3, 6, 1 << 32} {
		if _, err := Radix(a, 8); err == nil {
			t.Errorf("%d children: no error", a)
		}
	}
	if _, err := Radix(2, 0); err == nil {
		t.Error("no nodes: no error")
	}
}
