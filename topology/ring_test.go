package topology

import (
	"testing"

	"pgregory.net/rapid"
)

func TestRingDistancesLeadToTheNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.IntRange(1, 1<<31).Draw(t, "p")
		r := rapid.IntRange(0, p-1).Draw(t, "r")
		s := rapid.IntRange(0, p-1).Draw(t, "s")
		ring := Ring(p)
		right, left := ring.ToRight(r, s), ring.ToLeft(r, s)
		if right < 0 || right >= p || (right+left)%p != 0 {
			t.Fatalf("%d to the right and %d to the left on a ring of %d", right, left, p)
		}
		if ring.Right(r, right) != s || ring.Left(r, left) != s || ring.Right(r, -left) != s {
			t.Fatalf("distance %d or %d from %d does not lead to %d", right, left, r, s)
		}
		if ring.Right(r, right+3*p) != s || ring.Left(r, left+3*p) != s {
			t.Fatal("going around changes the goal")
		}
	})
	if got := Ring(8).Right(7, 2); got != 1 {
		t.Errorf("2 to the right of 7 on a ring of 8 is %d, want 1", got)
	}
	if got := Ring(8).Left(1, 2); got != 7 {
		t.Errorf("2 to the left of 1 on a ring of 8 is %d, want 7", got)
	}
}
