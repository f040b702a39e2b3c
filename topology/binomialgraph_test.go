package topology

import (
	"math/bits"
	"testing"
)

func TestBinomialGraphIsTheNeighbourSetOfThePaper(t *testing.T) {
	for p := 1; p <= 130; p++ {
		g := BinomialGraph(p)
		for r := range p {
			want := map[int]bool{}
			for x := 0; x <= bits.Len(uint(p))-1; x++ { // ⌊log₂ P⌋
				want[(r+(1<<x))%p] = true
			}
			delete(want, r)
			got := map[int]bool{}
			for i := 0; g.Out(r, i) >= 0; i++ {
				n := g.Out(r, i)
				got[n] = true
				if g.In(n, i) != r {
					t.Fatalf("P=%d: %d sends to %d, which hears from %d", p, r, n, g.In(n, i))
				}
			}
			if len(got) != g.Degree() || len(got) != len(want) {
				t.Fatalf("P=%d: %d has neighbours %v, degree %d, want %v", p, r, got, g.Degree(), want)
			}
			for n := range want {
				if !got[n] {
					t.Fatalf("P=%d: %d does not send to %d", p, r, n)
				}
			}
			if g.In(r, g.Degree()) != -1 || g.Out(r, -1) != -1 || g.In(r, -1) != -1 {
				t.Fatalf("P=%d: %d has neighbours beyond its degree", p, r)
			}
		}
	}
}
