package topology

import (
	"slices"
	"testing"
)

// The ID of a child follows from the height of its parent and the number of children (3.1).
func TestRadixChildrenFollowFromTheLevel(t *testing.T) {
	for _, a := range []int{2, 4, 8, 64, 1 << 16, 1 << 31} {
		for _, p := range []int{1, 2, 3, 5, 6, 21, 22, 300, 5000} {
			tree, err := Radix(a, p)
			if err != nil {
				t.Fatal(err)
			}
			for r := range p {
				width := 1 // of the level
				for range tree.Level(r) {
					width *= a
				}
				for i := range min(a, p) {
					want := r + (i+1)*width
					if want >= p {
						want = -1
					} else if tree.Parent(want) != r || tree.Level(want) != tree.Level(r)+1 {
						t.Fatalf("a=%d: %d at level %d is below %d, want level %d, below %d", a, want, tree.Level(want), tree.Parent(want), tree.Level(r)+1, r)
					}
					if got := tree.Child(r, i); got != want {
						t.Fatalf("a=%d, p=%d: child %d of %d is %d, want %d", a, p, i, r, got, want)
					}
					if want < 0 {
						break
					}
				}
			}
		}
	}
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
