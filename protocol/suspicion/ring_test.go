package suspicion

import (
	"slices"
	"testing"
)

func TestTheRingComesByEverybodyBothWays(t *testing.T) {
	for n := 1; n <= 300; n++ {
		r := newRing(n)
		forth := r.along(0, r.stride, n)
		back := r.along(0, -r.stride, n)
		slices.Reverse(back)
		if len(forth) != n-1 || !slices.Equal(forth, back) {
			t.Fatalf("n=%d: %v after 0, and backwards %v", n, forth, back)
		}
		slices.Sort(forth)
		if len(slices.Compact(forth)) != n-1 {
			t.Fatalf("n=%d: somebody comes twice", n)
		}
	}
}

func TestTheRingClosesAroundTheGone(t *testing.T) {
	r := newRing(8) // 0 3 6 1 4 7 2 5
	for _, rank := range []int{3, 1} {
		if !r.set(rank, true) || r.set(rank, true) {
			t.Errorf("that %d is gone must be new once", rank)
		}
	}
	if r.set(-1, true) || r.set(8, true) {
		t.Error("a rank that does not exist is gone")
	}
	if got, want := r.along(0, r.stride, 2), []int{6, 4}; !slices.Equal(got, want) {
		t.Errorf("after 0 come %v, want %v", got, want)
	}
	if got, want := r.along(4, -r.stride, 2), []int{6, 0}; !slices.Equal(got, want) {
		t.Errorf("before 4 come %v, want %v", got, want)
	}
}

// A host has successive ranks. If it is lost, with half of the job at most, each
// of its processes has a watcher elsewhere.
func TestHalfOfTheRanksHaveAWatcherAmongTheOthers(t *testing.T) {
	for n := 2; n <= 300; n++ {
		if n == 6 {
			continue // strides 1 and 5 only
		}
		r := newRing(n)
		for first := 0; first+n/2 <= n; first++ {
			lost := func(rank int) bool { return rank >= first && rank < first+n/2 }
			for rank := first; lost(rank); rank++ {
				if !slices.ContainsFunc(r.along(rank, r.stride, watchers), func(w int) bool { return !lost(w) }) {
					t.Fatalf("n=%d: the watchers of %d are lost with %d … %d", n, rank, first, first+n/2-1)
				}
			}
		}
	}
}
