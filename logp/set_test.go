package logp

import (
	"testing"

	"pgregory.net/rapid"
)

func TestLongestGapEqualsCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "n")
		s := newSet(n)
		in := make([]bool, n)
		for _, run := range rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 6).Draw(t, "runs") {
			length := rapid.IntRange(1, n).Draw(t, "length")
			for i := run; i < min(run+length, n); i++ {
				s.set(i)
				in[i] = true
			}
		}
		want, gap := 0, 0
		for i := range 2 * n { // twice around
			if gap++; in[i%n] {
				gap = 0
			}
			want = max(want, min(gap, n))
		}
		if got := s.longestGap(n); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}
