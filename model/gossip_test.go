package model

import (
	"fmt"
	"log"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// How long to gossip before a checked correction, among 4,096 processes.
func ExampleTuner_Tune() {
	tuner, err := NewTuner(Gossip{N: 4096, L: 2, O: 1, Delta: DeltaFor(0.5, 1e6), Margin: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range []Algorithm{GOS, OCG, CCG} {
		best, err := tuner.Tune(a)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: T=%d, C=%d, latency %d, %.0f messages\n", a, best.T, best.C, best.Latency, best.Gossip+best.Correction)
	}
	// Output:
	// gos: T=50, C=0, latency 53, 95400 messages
	// ocg: T=32, C=7, latency 42, 38382 messages
	// ccg: T=34, C=0, latency 46, 50414 messages
}

const paperDelta = 6.93e-7 // section III.B

func tuner(t *testing.T, g Gossip) *Tuner {
	t.Helper()
	u, err := NewTuner(g)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func tune(t *testing.T, g Gossip, a Algorithm) Tuning {
	t.Helper()
	r, err := tuner(t, g).Tune(a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(got, want, part float64) bool { return math.Abs(got-want) <= part*math.Abs(want) }

// The T of the paper: section III and the table in Figure 7.
func TestTunedAsInThePaper(t *testing.T) {
	small := Gossip{N: 1024, L: 1, O: 1, Delta: paperDelta, F: 1}
	large := Gossip{N: 4096, L: 2, O: 1, Delta: paperDelta, F: 1}
	failed := large
	failed.Failed = 3
	for _, c := range []struct {
		g          Gossip
		a          Algorithm
		t, latency int // by the formula
		margin     int // T with the margin
		with       int // its latency
	}{
		{small, OCG, 23, 31, 24, 31}, // section III.B: 24, Figure 3: 31
		{small, CCG, 26, 34, 25, 35}, // section III.C: 25
		{large, GOS, 50, 53, 50, 53}, // table: 50, 53
		{large, OCG, 31, 42, 32, 42}, // table: 32, 42
		{large, CCG, 33, 45, 34, 46}, // table: 36; 35 has the same latency as 33
		{large, FCG, 36, 56, 37, 57}, // table: 37
		{failed, GOS, 50, 53, 50, 53},
		{failed, OCG, 31, 42, 32, 42}, // table: 32, 42
		{failed, CCG, 33, 45, 34, 46}, // table: 34
		{failed, FCG, 34, 58, 35, 59}, // table: 37, as without failures
	} {
		if r := tune(t, c.g, c.a); r.T != c.t || r.Latency != c.latency {
			t.Errorf("%s, %+v: T=%d, latency %d, want %d, %d", c.a, c.g, r.T, r.Latency, c.t, c.latency)
		}
		c.g.Margin = true
		if r := tune(t, c.g, c.a); r.T != c.margin || r.Latency != c.with {
			t.Errorf("%s, %+v: T=%d, latency %d, want %d, %d", c.a, c.g, r.T, r.Latency, c.margin, c.with)
		}
	}
}

func TestMessagesAsInThePaper(t *testing.T) {
	u := tuner(t, Gossip{N: 4096, L: 2, O: 1, Delta: paperDelta})
	for _, c := range []struct {
		a    Algorithm
		t    int
		want float64
		part float64
	}{
		{GOS, 50, 95418, 1e-3}, // table in Figure 7
		{GOS, 50, 95400, 1e-4}, // docs/papers.md
		{GOS, 36, 38067, 1e-4},
		{OCG, 32, 38400, 1e-3}, // table in Figure 7
	} {
		r, err := u.At(c.a, c.t)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Gossip + r.Correction; !near(got, c.want, c.part) {
			t.Errorf("%s until %d: %.1f messages, want %.0f", c.a, c.t, got, c.want)
		}
	}
}

// What logp counted without the receive queue, in the mean of 2,000 runs of
// checked correction and 500 of failure-proof(1).
func TestCorrectionMessagesAsSimulated(t *testing.T) {
	large := tuner(t, Gossip{N: 4096, L: 2, O: 1, Delta: paperDelta, F: 1})
	small := tuner(t, Gossip{N: 1024, L: 1, O: 1, Delta: paperDelta, F: 1})
	for _, c := range []struct {
		u    *Tuner
		a    Algorithm
		t    int
		want float64
		part float64
	}{
		{large, CCG, 30, 20270, 1e-3},
		{large, CCG, 33, 20465, 1e-3},
		{large, CCG, 36, 20479, 1e-3},
		{small, CCG, 20, 3936, 1e-2},
		{small, CCG, 23, 4083, 1e-3},
		{large, FCG, 32, 32822, 1e-2},
		{large, FCG, 37, 32768, 1e-3},
	} {
		r, err := c.u.At(c.a, c.t)
		if err != nil {
			t.Fatal(err)
		}
		if !near(r.Correction, c.want, c.part) {
			t.Errorf("%s until %d: %.1f messages of correction, want %.0f", c.a, c.t, r.Correction, c.want)
		}
	}
}

// Without gaps every process sends as many messages as Corollary 1 of Corrected
// Trees says; failure-proof correction 4f+2+⌈L/o⌉, as logp counts for L ≥ o.
func TestCorrectionMessagesWithoutGaps(t *testing.T) {
	for _, c := range []struct{ l, o, f, want int }{
		{1, 1, 1, 7},
		{2, 1, 1, 8},
		{4, 1, 1, 10},
		{3, 2, 1, 8},
		{2, 1, 0, 5},
		{2, 1, 2, 12},
		{8, 1, 3, 22},
	} {
		u := tuner(t, Gossip{N: 512, L: c.l, O: c.o, Delta: paperDelta, F: c.f})
		if got := u.messages(FCG, 2*c.f+3, 512) / 512; got != float64(c.want) {
			t.Errorf("%+v: %g messages", c, got)
		}
		if got := u.messages(CCG, 0, 512) / 512; got != float64(SyncCheckedMessages(c.l, c.o)) {
			t.Errorf("%+v: %g messages of checked correction", c, got)
		}
	}
}

// uncoloredAt is n−c(t), exact even where it is far below 1.
func (u *Tuner) uncoloredAt(t int) (float64, error) {
	if t < 0 {
		return float64(u.g.N - u.g.Failed), nil
	}
	err := u.reach(t / u.unit)
	if err != nil {
		return 0, err
	}
	return u.uncolored[t/u.unit], nil
}

// The first messages by hand: L=1, o=1, so what is sent at t colors at t+3.
func TestColoredByHand(t *testing.T) {
	u := tuner(t, Gossip{N: 3, L: 1, O: 1, Delta: 0.1})
	for i, want := range []float64{1, 1, 1, 2, 2.5, 2.75} {
		// Round 3 and 4: one message of the root hits each of two with 1/2.
		if got, err := u.Colored(i); err != nil || got != want {
			t.Errorf("c(%d) = %g, %v, want %g", i, got, err, want)
		}
	}
	if got, err := u.Colored(-1); got != 0 || err != nil {
		t.Errorf("c(−1) = %g, %v", got, err)
	}
	// From 6 on two send, on average: (1/2)^2 of 0.25 are left.
	if got, err := u.uncoloredAt(6); err != nil || !near(got, 0.0625, 1e-12) {
		t.Errorf("n−c(6) = %g, %v, want 0.0625", got, err)
	}
}

// Two processes, L=3, o=2: the root sends at 0, 2, 4, …, its first message takes
// effect at 7, and the other one sends at 7, 9, …; what is sent at 9 ends at 16.
func TestOverheadThatDoesNotDivideTheLatency(t *testing.T) {
	u := tuner(t, Gossip{N: 2, L: 3, O: 2, Delta: 0.1})
	for _, c := range []struct {
		t, latency int
		sent       float64
	}{{1, 7, 1}, {2, 8, 1}, {3, 9, 2}, {7, 13, 4}, {8, 14, 5}, {10, 16, 7}} {
		r, err := u.At(GOS, c.t)
		if err != nil || r.T != c.t || r.Latency != c.latency || r.Gossip != c.sent {
			t.Errorf("until %d: %+v, %v, want latency %d, %g messages", c.t, r, err, c.latency, c.sent)
		}
	}
}

// Twice the unit of time is half the numbers, nothing else.
func TestTuningDoesNotDependOnTheUnit(t *testing.T) {
	for _, g := range []Gossip{
		{N: 1000, L: 2, O: 1, Delta: paperDelta, F: 1, Margin: true},
		{N: 300, Failed: 30, L: 3, O: 2, Delta: 0.1, F: 2},
	} {
		for _, a := range Algorithms {
			once := tune(t, g, a)
			g.L, g.O = 6*g.L, 6*g.O
			got := tune(t, g, a)
			g.L, g.O = g.L/6, g.O/6
			once.T, once.C, once.Latency = 6*once.T, 6*once.C, 6*once.Latency
			if got != once {
				t.Errorf("%s, %+v: %+v, want %+v", a, g, got, once)
			}
		}
	}
}

// Equations 3 to 5, and Appendix B carried over to other f.
func TestHowLongCorrectionTakes(t *testing.T) {
	for _, c := range []struct {
		a       Algorithm
		f, k, o int
		want    int
	}{
		{GOS, 1, 0, 1, 0},
		{OCG, 1, 4, 1, 7},
		{OCG, 1, 4, 3, 17},
		{CCG, 1, 4, 1, 11},
		{CCG, 1, 4, 3, 29},
		{FCG, 0, 10, 1, 33}, // learning of the next one: S ≤ 8, 4S−3 + L+2
		{FCG, 1, 10, 1, 29}, // 4Ḡ − 13 + L
		{FCG, 1, 10, 2, 56},
		{FCG, 2, 10, 1, 27}, // the final round: S+R ≤ 8, R ≤ 5, one later: 2·8 + 2·5 − 2 + L + 1
		{FCG, 3, 10, 1, 25},
	} {
		u := tuner(t, Gossip{N: 100, L: 2, O: c.o, F: c.f, Delta: 0.1})
		if got := u.corrects(c.a, c.k); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Equation 1 as it stands, for every t.
func TestColoredIsEquationOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		g := Gossip{N: 2 + r.IntN(300), L: r.IntN(6), O: 1 + r.IntN(4), Delta: 0.1}
		g.Failed = r.IntN(g.N)
		u := tuner(t, g)
		n := float64(g.N - g.Failed)
		c := func(c []float64, t int) float64 {
			if t < 0 {
				return 0
			}
			return c[t]
		}
		var want []float64
		for at := range 60 {
			if at < g.O {
				want = append(want, 1)
			} else {
				before := want[at-g.O]
				want = append(want, before+(n-before)*(1-math.Pow(1-1/float64(g.N-1), c(want, at-g.L-2*g.O))))
			}
			got, err := u.Colored(at)
			left, _ := u.uncoloredAt(at)
			if err != nil || !near(got, want[at], 1e-9) || math.Abs(got+left-n) > 1e-9*n {
				t.Fatalf("%+v: c(%d) = %g, left %g, %v, want %g of %g", g, at, got, left, err, want[at], n)
			}
		}
	}
}

// power is b^n in long numbers.
func power(b *big.Float, n int) *big.Float {
	result, b := long(1), new(big.Float).Set(b)
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			result.Mul(result, b)
		}
		b.Mul(b, b)
	}
	return result
}

// longBits hold 1−1e-50 to twenty digits.
const longBits = 240

func long(f float64) *big.Float { return new(big.Float).SetPrec(longBits).SetFloat64(f) }

// tails are Σ_{i>G} q_i for G = V … limit by the paper's formulas, without
// telescoping, in long numbers: equation 2 for V = 2, Appendix B for others.
func tails(n, v, limit int, colored float64) []float64 {
	x := new(big.Float).Quo(long(colored), long(float64(n)))
	w := new(big.Float).Sub(long(1), x)
	stays := make([]*big.Float, limit+1) // 1−β_G
	for g := v; g <= limit; g++ {
		q := new(big.Float).Mul(power(x, v), power(w, g-v))
		q.Mul(q, new(big.Float).SetPrec(longBits).SetInt(new(big.Int).Binomial(int64(g-2), int64(v-2))))
		stays[g] = power(new(big.Float).Sub(long(1), q), n)
	}
	result := make([]float64, limit+1)
	sum, none := long(0), long(1) // none: no longer chain
	for g := limit; g >= v; g-- {
		result[g], _ = sum.Float64()
		exists := new(big.Float).Sub(long(1), stays[g])
		sum.Add(sum, exists.Mul(exists, none))
		none = new(big.Float).Mul(none, stays[g])
	}
	return result
}

func TestChainsAreThePapersSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		n, v := 8+r.IntN(100), 2
		if i%2 == 1 {
			v = 3 + 2*r.IntN(3)
		}
		if i%10 == 0 {
			n = 1500 + r.IntN(1000) // the closed form is for long sums
		}
		uncolored := float64(n) * math.Pow(r.Float64(), 3) * 0.9
		ch := newChains(n, 0, v, float64(n)-uncolored, uncolored)
		limit := n
		if v == 2 {
			limit = n + 1 // K = N−1
		}
		want := tails(n, v, limit, float64(n)-uncolored)
		for g := v; g <= limit; g++ {
			if got := ch.longer(g); !near(got, want[g], 1e-9) && want[g] > 1e-50 {
				t.Fatalf("N=%d, V=%d, %g uncolored: longer than %d with probability %g, want %g", n, v, uncolored, g, got, want[g])
			}
		}
		delta := math.Exp(-30 * r.Float64())
		bar := v
		for want[bar] >= delta {
			bar++
		}
		least := int(float64(v-1)/ch.x) + 1
		if got := ch.bar(delta, r.IntN(n)); got != min(max(bar, least), limit) {
			t.Fatalf("N=%d, V=%d, %g uncolored, δ=%g: %d, want %d, at least %d", n, v, uncolored, delta, got, bar, least)
		}
	}
}

// The closed form of the first order against the sum of its terms.
func TestFirstOrderIsTheSumOfItsTerms(t *testing.T) {
	for _, c := range []struct {
		n, v      int
		uncolored float64
	}{{5000, 2, 3}, {5000, 5, 3}, {5000, 5, 4000}, {200000, 9, 100000}, {200000, 2, 199999}, {200000, 7, 199000}} {
		ch := newChains(c.n, 0, c.v, float64(c.n)-c.uncolored, c.uncolored)
		for _, length := range []int{c.v, c.v + 1, c.v + 20, c.n / 2} {
			sum := 0.0
			for g := ch.limit; g > length; g-- {
				sum += math.Exp(ch.lnQ(g))
			}
			if got := ch.first(length); !near(got, sum, 1e-7) && sum > 1e-200 {
				t.Errorf("%+v: beyond %d: %g, want %g", c, length, got, sum)
			}
			if most := ch.most(length); most < math.Exp(ch.lnQ(length+1)) {
				t.Errorf("%+v: beyond %d: at most %g, but there is %g", c, length, most, math.Exp(ch.lnQ(length+1)))
			}
		}
	}
}

// Where the first order alone would decide wrongly.
func TestSumBelowIsExactBetweenItsBounds(t *testing.T) {
	for _, c := range []struct{ v, length int }{{2, 2}, {2, 5}, {5, 6}, {5, 12}, {7, 15}} {
		ch := newChains(5000, 0, c.v, 2500, 2500)
		first, exact := ch.first(c.length), ch.exact(c.length)
		if first >= exact {
			t.Fatalf("%+v: %g to first order, %g in all", c, first, exact)
		}
		if ch.sumBelow(c.length, (first+exact)/2) || ch.sumBelow(c.length, first) || !ch.sumBelow(c.length, exact*(1+1e-12)) {
			t.Errorf("%+v: between %g and %g", c, first, exact)
		}
	}
}

func TestSearchFindsTheFirst(t *testing.T) {
	for first := 3; first <= 40; first++ {
		for near := 0; near <= 45; near++ {
			if got := search(3, 40, near, func(i int) bool { return i >= first || i == 40 }); got != first {
				t.Fatalf("from %d: %d, want %d", near, got, first)
			}
		}
	}
}

// Tune against trying every T.
func TestTuneIsTheBestOfAllT(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		g := randomGossip(r, 400)
		g.Margin = false
		u := tuner(t, g)
		for _, a := range []Algorithm{OCG, CCG, FCG} {
			if u.serves(a) != nil {
				continue
			}
			got, err := u.Tune(a)
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; at <= got.Latency; at += u.unit {
				other, err := u.At(a, at)
				if err != nil {
					t.Fatal(err)
				}
				if other.Latency < got.Latency || other.Latency == got.Latency && other.Exceeds < got.Exceeds {
					t.Fatalf("%s, %+v: %+v, but there is %+v", a, g, got, other)
				}
			}
		}
	}
}

func TestGossipAloneStopsAsSoonAsItMay(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		g := randomGossip(r, 5000)
		u := tuner(t, g)
		got, err := u.Tune(GOS)
		if err != nil {
			t.Fatal(err)
		}
		if got.Exceeds >= g.Delta {
			t.Errorf("%+v: %+v", g, got)
		}
		if got.T == 0 {
			continue
		}
		if before, err := u.At(GOS, got.T-u.unit); err != nil || before.Exceeds < g.Delta {
			t.Errorf("%+v: %+v, but also %+v, %v", g, got, before, err)
		}
	}
}

// A smaller δ never ends sooner; longer gossip never leaves longer chains, once
// half of the processes are colored.
func TestTuningIsMonotone(t *testing.T) {
	for _, a := range Algorithms {
		before := 0
		for delta := 0.9; delta > 1e-30; delta /= 3 {
			r := tune(t, Gossip{N: 3000, Failed: 20, L: 3, O: 2, Delta: delta, F: 1}, a)
			if r.Latency < before {
				t.Errorf("%s: δ=%g ends at %d, a larger one at %d", a, delta, r.Latency, before)
			}
			before = r.Latency
		}
		before = 0
		for n := 8; n <= 1<<30; n *= 2 {
			r := tune(t, Gossip{N: n, L: 2, O: 1, Delta: paperDelta, F: 1}, a)
			if r.Latency < before {
				t.Errorf("%s: %d processes end at %d, half of them at %d", a, n, r.Latency, before)
			}
			before = r.Latency
		}
		u := tuner(t, Gossip{N: 10000, L: 2, O: 1, Delta: paperDelta, F: 1})
		last := Tuning{K: math.MaxInt}
		for at := 25; at < 120; at++ {
			r, err := u.At(a, at)
			if err != nil {
				t.Fatal(err)
			}
			if r.K > last.K || r.Gossip < last.Gossip || r.K == last.K && r.Exceeds > last.Exceeds {
				t.Errorf("%s until %d: %+v after %+v", a, at, r, last)
			}
			last = r
		}
	}
}

func randomGossip(r *rand.Rand, n int) Gossip {
	g := Gossip{N: 2 + r.IntN(n-1), L: r.IntN(8), O: 1 + r.IntN(3), Delta: math.Exp(-40 * r.Float64()), F: r.IntN(4), Margin: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		g.Failed = r.IntN(g.N/2 + 1)
	}
	return g
}

func TestTuningIsAlwaysSensible(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for i := range 200 {
		g := randomGossip(r, int(math.Exp(math.Log(10)+float64(i%20))))
		u := tuner(t, g)
		for _, a := range Algorithms {
			got, err := u.Tune(a)
			if err != nil {
				if u.serves(a) == nil {
					t.Fatalf("%s, %+v: %v", a, g, err)
				}
				continue
			}
			for _, f := range []float64{got.Exceeds, got.Gossip, got.Correction} {
				if math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
					t.Fatalf("%s, %+v: %+v", a, g, got)
				}
			}
			if got.T < 0 || got.C < 0 || got.K < 0 || got.K > g.N || got.Latency < got.T || got.Exceeds >= g.Delta || (got.C > 0) != (a == OCG) {
				t.Fatalf("%s, %+v: %+v", a, g, got)
			}
		}
	}
}

// A billion processes take hardly longer than a thousand: the number of terms
// does not depend on how many there are.
func TestTuningABillionIsQuick(t *testing.T) {
	least := func(n int) time.Duration {
		least := time.Duration(math.MaxInt64)
		for range 3 {
			began := time.Now()
			for _, a := range Algorithms {
				tune(t, Gossip{N: n, L: 2, O: 1, Delta: paperDelta, F: 1, Margin: true}, a)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	few, many := least(1000), least(1_000_000_000)
	if many > 1000*few {
		t.Errorf("a billion processes take %v, a thousand %v", many, few)
	}
}

func TestDeltaFor(t *testing.T) {
	for _, c := range []struct{ success, m, want float64 }{
		{0.5, 1e6, 6.931469e-7}, // section III.B
		{0.5, 1, 0.5},
		{0.99, 1, 0.01},
		{0.81, 2, 0.1},
	} {
		if got := DeltaFor(c.success, c.m); !near(got, c.want, 1e-6) {
			t.Errorf("%g of %g: %g, want %g", c.success, c.m, got, c.want)
		}
	}
}

func TestGossipCheck(t *testing.T) {
	good := Gossip{N: 100, L: 2, O: 1, Delta: 0.1, F: 1}
	for _, c := range []struct {
		name string
		with func(*Gossip)
		ok   bool
	}{
		{"as it is", func(*Gossip) {}, true},
		{"one process", func(g *Gossip) { g.N = 1 }, false},
		{"too many processes", func(g *Gossip) { g.N = 1<<31 + 1 }, false},
		{"all failed", func(g *Gossip) { g.Failed = 100 }, false},
		{"only the root left", func(g *Gossip) { g.Failed = 99 }, true},
		{"less than none failed", func(g *Gossip) { g.Failed = -1 }, false},
		{"δ 0", func(g *Gossip) { g.Delta = 0 }, false},
		{"δ 1", func(g *Gossip) { g.Delta = 1 }, false},
		{"δ not a number", func(g *Gossip) { g.Delta = math.NaN() }, false},
		{"negative L", func(g *Gossip) { g.L = -1 }, false},
		{"no overhead", func(g *Gossip) { g.O = 0 }, false},
		{"huge overhead", func(g *Gossip) { g.O = timeMax }, false},
		{"negative f", func(g *Gossip) { g.F = -1 }, false},
		{"huge f", func(g *Gossip) { g.F = failuresMax + 1 }, false},
	} {
		g := good
		c.with(&g)
		if _, err := NewTuner(g); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	u := tuner(t, Gossip{N: 6, Failed: 2, L: 2, O: 1, Delta: 0.1, F: 1})
	if _, err := u.Tune(FCG); err == nil {
		t.Error("fcg with f=1 among 4 live processes")
	}
	if _, err := u.Tune("tree"); err == nil {
		t.Error("algorithm tree")
	}
	if _, err := u.At(OCG, -1); err == nil {
		t.Error("gossip until −1")
	}
	if _, err := tuner(t, Gossip{N: 6, L: 1 << 21, O: 1, Delta: 0.1}).Tune(OCG); err == nil {
		t.Error("more steps than allowed")
	}
}
