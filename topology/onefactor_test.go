package topology

import "testing"

func TestOneFactorsPairEveryoneWithEveryoneOnce(t *testing.T) {
	for p := 1; p <= 65; p++ {
		f := OneFactor(p)
		met := make([][]bool, p)
		for i := range met {
			met[i] = make([]bool, p)
		}
		for k := range f.Rounds() {
			idle := 0
			for i := range p {
				j := f.Partner(i, k)
				if j == -1 {
					idle++
					continue
				}
				if j < 0 || j >= p || j == i || met[i][j] || f.Partner(j, k) != i {
					t.Fatalf("p=%d, round %d: %d meets %d", p, k, i, j)
				}
				met[i][j] = true
			}
			if idle != p%2 {
				t.Fatalf("p=%d, round %d: %d idle, want %d", p, k, idle, p%2)
			}
		}
		for i := range met {
			for j, ok := range met[i] {
				if !ok && i != j {
					t.Fatalf("p=%d: %d never meets %d", p, i, j)
				}
			}
		}
		want := p - 1 + p%2
		if p == 1 {
			want = 0 // no partner
		}
		if f.Rounds() != want {
			t.Fatalf("p=%d: %d rounds, want %d", p, f.Rounds(), want)
		}
	}
}

func TestOneFactorsOfSixAreThoseOfFigure37(t *testing.T) {
	for k, pairs := range [][][2]int{
		{{0, 5}, {1, 4}, {2, 3}},
		{{3, 5}, {0, 1}, {2, 4}},
	} {
		for _, pair := range pairs {
			if got := OneFactor(6).Partner(pair[0], k); got != pair[1] {
				t.Errorf("round %d: %d meets %d, want %d", k, pair[0], got, pair[1])
			}
		}
	}
}
