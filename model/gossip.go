// Source: Hoefler, Barak, Shiloh, Drezner, Corrected Gossip (IPDPS 2017),
// section III (equations 1–4) and Appendix B (equation 5).
//
// Gossip alone needs long to reach the last few processes. Corrected gossip
// stops it early, at T, and lets a correction along the ring reach the rest;
// the T that ends soonest balances the two. It follows from how many processes
// gossip colors on average, c(t), and from how long a chain of uncolored ones
// it leaves: K̄ is the length that is exceeded with a probability below δ.
//
// The equations are approximations, since they put averages for what is random
// and take chains for independent. Ours, not the paper's, are: how ties are
// broken if there is a margin, the general f of FCG, the gossip's end if o does
// not divide L, the least chain for a few colored processes, and the messages
// of CCG and FCG. docs/tuning.md compares the results with the paper's and with
// simulation.
//
// Cost: one term a step of time up to T+L+O, and for each T a few sums of a
// bounded number of terms, whatever N. Products of N powers are kept as
// logarithms, and the uncolored are counted apart from the colored, so that
// neither is lost beside the other.

package model

import (
	"fmt"
	"math"

	"github.com/coppice-go/coppice/topology"
)

// An Algorithm is one of the broadcasts of Corrected Gossip.
type Algorithm string

// The broadcasts of Corrected Gossip.
const (
	GOS Algorithm = "gos" // gossip alone
	OCG Algorithm = "ocg" // opportunistic correction, for the time C
	CCG Algorithm = "ccg" // checked correction
	FCG Algorithm = "fcg" // failure-proof correction
)

// Algorithms are all of them.
var Algorithms = []Algorithm{GOS, OCG, CCG, FCG}

// Gossip is what a T is chosen for.
type Gossip struct {
	N      int     // processes, at least 2
	Failed int     // how many of them have failed before the start, not the root
	L, O   int     // as in LogP
	Delta  float64 // δ: how probable it may be that K̄ is exceeded, or with GOS that a process is left out
	F      int     // failures during the run that FCG survives
	Margin bool    // adds one O to the best T of OCG, CCG and FCG, as the paper does in its experiments
}

// Check returns an error unless T can be chosen for g.
func (g Gossip) Check() error {
	switch {
	case g.N < 2 || g.N > processesMax:
		return fmt.Errorf("%d processes; allowed: 2 to 2^31", g.N)
	case g.Failed < 0 || g.Failed >= g.N:
		return fmt.Errorf("%d of %d processes failed; allowed: 0 to %d", g.Failed, g.N, g.N-1)
	case !(g.Delta > 0 && g.Delta < 1):
		return fmt.Errorf("δ is %g; allowed: more than 0 and less than 1", g.Delta)
	case g.F < 0 || g.F > failuresMax:
		return fmt.Errorf("f is %d; allowed: 0 to %d", g.F, failuresMax)
	case g.O > timeMax/4: // four times a chain of all processes has to fit
		return fmt.Errorf("overhead o is %d; allowed: 1 to %d", g.O, timeMax/4)
	}
	return CheckLogP(g.L, g.O)
}

const (
	processesMax = 1 << 31
	failuresMax  = 1000    // bounds the terms of chains.few
	stepsMax     = 1 << 20 // bounds the terms of c(t)
)

// A Tuning is a choice of T and what it comes to.
type Tuning struct {
	T       int     // no gossip is sent at T or later
	C       int     // OCG: how long correction takes; 0 for the others
	K       int     // K̄, the longest chain of uncolored processes to expect; FCG: Ḡ, the longest chain with 2f+3 g-nodes; GOS: 0
	Latency int     // until everything has ended if K is not exceeded
	Exceeds float64 // how probable it is that K is exceeded: the least δ, nearly, that T and K withstand

	Gossip     float64 // expected messages of gossip
	Correction float64 // expected messages of correction
}

// DeltaFor is the δ with which all of m broadcasts succeed with the given
// probability (section III.B: δ = 1−(1−ψ)^(1/m), where ψ = 1−success).
func DeltaFor(success, m float64) float64 { return -math.Expm1(math.Log(success) / m) }

// A Tuner chooses T.
type Tuner struct {
	g    Gossip
	unit int // time in which l, o and all the times below are counted
	l, o int

	// Of the processes that have not failed, by time (equation 1).
	colored, uncolored []float64
}

// NewTuner returns a Tuner for g.
func NewTuner(g Gossip) (*Tuner, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	// Nothing happens but at multiples of unit. The paper takes O to divide L,
	// which makes it O.
	unit := topology.GCD(g.L, g.O)
	return &Tuner{g: g, unit: unit, l: g.L / unit, o: g.O / unit}, nil
}

// reach extends the expected numbers of colored processes up to a time:
//
//	c(t+O) = c(t) + (n−c(t))·[1 − (1−1/(N−1))^c(t−L−O)]    (1)
//
// What takes effect in (t, t+O] was sent 2O+L before; each process colored by t−L−O has sent exactly one message in that
// time. So the equation holds for every t, and o need not divide L. No process sends to itself, what goes to failed ones
// is lost: hence N−1 for n ≤ N.
func (u *Tuner) reach(t int) error {
	if t >= stepsMax {
		return fmt.Errorf("gossip among %d processes, %d failed, with L=%d, o=%d takes more than %d steps; allowed: fewer failed, or L and o of a coarser unit",
			u.g.N, u.g.Failed, u.g.L, u.g.O, stepsMax)
	}
	missed := math.Log1p(-1 / float64(u.g.N-1)) // ln of: one message misses one process
	for s := len(u.colored); s <= t; s++ {
		c, d := 1.0, float64(u.g.N-u.g.Failed-1)
		if s >= 2*u.o+u.l {
			sent := u.colored[s-2*u.o-u.l] * missed
			c, d = u.colored[s-u.o], u.uncolored[s-u.o]
			c, d = c-d*math.Expm1(sent), d*math.Exp(sent)
		}
		u.colored = append(u.colored, c)
		u.uncolored = append(u.uncolored, d)
	}
	return nil
}

// Colored is c(t), how many processes gossip that does not stop has colored by
// time t, on average.
func (u *Tuner) Colored(t int) (float64, error) {
	if t < 0 {
		return 0, nil
	}
	if err := u.reach(t / u.unit); err != nil {
		return 0, err
	}
	return u.colored[t/u.unit], nil
}

// end is when the last message sent before t takes effect, in units. This is
// the paper's T+L+O where O divides L.
func (u *Tuner) end(t int) int { return t - 1 + 2*u.o + u.l }

// sent is how many messages gossip sends before t, in units: Σ c(t) over the times at which a round begins. Every process
// colored by s sends one in (s−O, s].
func (u *Tuner) sent(t int) float64 {
	sum := 0.0
	for s := t - 1; s >= 0; s -= u.o {
		sum += u.colored[s]
	}
	return sum
}

// At is what gossip until t comes to; t counts as the next multiple of the
// greatest common divisor of L and O.
func (u *Tuner) At(a Algorithm, t int) (Tuning, error) {
	if t < 0 {
		return Tuning{}, fmt.Errorf("gossip until %d; allowed: 0 or later", t)
	}
	if err := u.serves(a); err != nil {
		return Tuning{}, err
	}
	return u.at(a, ceilDiv(t, u.unit))
}

// at is At in units.
func (u *Tuner) at(a Algorithm, t int) (Tuning, error) {
	end := u.end(t)
	if err := u.reach(end); err != nil {
		return Tuning{}, err
	}
	r := Tuning{T: t * u.unit, Gossip: u.sent(t)}
	if a == GOS {
		r.Latency = end * u.unit
		r.Exceeds = min(u.uncolored[end], 1)
		return r, nil
	}
	ch := u.chains(a, end)
	bar := ch.bar(u.g.Delta, 0)
	r.K, r.Exceeds = u.length(a, bar), ch.longer(bar)
	r.Latency = end*u.unit + u.corrects(a, r.K)
	if a == OCG {
		r.C = u.corrects(a, r.K)
	}
	r.Correction = u.messages(a, r.K, u.colored[end])
	return r, nil
}

// serves returns an error unless a can be tuned for the group.
func (u *Tuner) serves(a Algorithm) error {
	switch v := u.g.gNodes(a); {
	case a != GOS && a != OCG && a != CCG && a != FCG:
		return fmt.Errorf("algorithm %q; allowed: gos, ocg, ccg, fcg", string(a))
	case a == FCG && u.g.N-u.g.Failed < v:
		return fmt.Errorf("fcg with f=%d among %d live processes; allowed: 2f+3 = %d or more", u.g.F, u.g.N-u.g.Failed, v)
	}
	return nil
}

// gNodes is V, the number of g-nodes in the chains that matter: for OCG and
// CCG both ends of a chain of uncolored processes, for FCG a g-node with the
// f+1 next on both sides (the paper has f = 1 and V = 5).
func (g Gossip) gNodes(a Algorithm) int {
	if a == FCG {
		return 2*g.F + 3
	}
	return 2
}

// length is K for a chain of the given number of processes.
func (u *Tuner) length(a Algorithm, chain int) int {
	if a == FCG {
		return chain
	}
	return chain - 2
}

// corrects is how long correction takes for a K, from its start.
//
// OCG: K̄O + L + O (equation 3). CCG: 2K̄O + L + O (equation 4). FCG, for f = 1:
// 4ḠO + L − 13O (equation 5, which leaves out that correction begins at T+L+O).
//
// For other f we follow Appendix B. Let S be the distance of the (f+1)-th
// g-node on one side and R that of the f-th on the other. A g-node learns of
// the former, which may start its final round just before reaching it, after
// (4S−3)O + L + 2O, and S ≤ Ḡ−1−(f+1). It begins its final round when it has
// learned of the latter, after (4R−4)O + L + 2O, one O more on the other side,
// and ends it 2SO later; S+R ≤ Ḡ−2, R ≤ Ḡ−f−3. The first makes
// 4ḠO + L − (4f+9)O, the second 4ḠO + L − (2f+11)O: both are the paper's for
// f = 1.
func (u *Tuner) corrects(a Algorithm, k int) int {
	l, o, f := u.g.L, u.g.O, u.g.F
	switch a {
	case OCG:
		return (k+1)*o + l
	case CCG:
		return (2*k+1)*o + l
	case FCG:
		return (4*k-min(4*f+9, 2*f+11))*o + l
	}
	return 0
}

// messages is how many correction messages c g-nodes are expected to send.
//
// OCG: what is sent in the time C arrives within it: K̄ each.
//
// CCG: a g-node whose neighbours among the g-nodes are a to the left and b to
// the right hears from them in rounds 2a+1+⌈L/O⌉ and 2b+⌈L/O⌉, as both sides
// are sent to in turn, left first; until then it sends in every round. (That
// neighbours send faster once they are done with their other side is left out.)
// With independent, geometrically distributed a and b the mean of
// max(2a+1, 2b) is 1+(2+w)/x, where x = c/N and w = 1−x. Without gaps that is
// Corollary 1 of Corrected Trees, 3+⌈L/O⌉ each.
//
// FCG: the final round begins when the f-th g-node has been heard of, after
// 2f/x + ⌈L/O⌉ rounds on average, and goes as far as the (f+1)-th on both
// sides, (2f+2)/x messages. With f = 0 it is CCG. (Found in simulations without
// gaps, then explained so; the means of x neglect which side takes longer.)
//
// No process sends more than once around.
func (u *Tuner) messages(a Algorithm, k int, c float64) float64 {
	n, lag := float64(u.g.N), float64(ceilDiv(u.g.L, u.g.O))
	each := 0.0
	switch {
	case a == OCG:
		each = float64(k)
	case a == CCG || u.g.F == 0:
		each = lag + 1 + (2+(n-c)/n)*n/c
	case a == FCG:
		each = lag + float64(4*u.g.F+2)*n/c
	}
	return c * min(each, n)
}

// chains are the chains of processes on the ring that begin and end with a
// g-node and hold exactly V of them, if each process is colored with
// probability x, independently.
type chains struct {
	n, v  int
	limit int     // the longest
	x     float64 // c(T+L+O)/N
	lnX   float64
	lnW   float64 // w = 1−x
}

// chains are those after the gossip that ends at a time.
func (u *Tuner) chains(a Algorithm, end int) chains {
	return newChains(u.g.N, u.g.Failed, u.g.gNodes(a), u.colored[end], u.uncolored[end])
}

func newChains(n, failed, v int, colored, uncolored float64) chains {
	ch := chains{n: n, v: v, limit: n, x: colored / float64(n)}
	if v == 2 {
		ch.limit = n + 1 // equation 2 goes to K = N−1: once around, both ends the same
	}
	ch.lnX = math.Log(ch.x)
	if ch.x < 0.5 {
		ch.lnW = math.Log1p(-ch.x)
	} else {
		ch.lnW = math.Log((float64(failed) + uncolored) / float64(n))
	}
	return ch
}

// bar is Ḡ_V, the smallest length ≥ V that is exceeded with a probability below
// delta; K̄ is Ḡ_2 − 2. The search begins at near.
//
// The paper's probabilities lose their sense when few processes are colored: a
// single one leaves no chance for short chains. So a chain is at least as long
// as they are on average.
func (ch chains) bar(delta float64, near int) int {
	mean := math.Floor(float64(ch.v-1)/ch.x) + 1
	low := ch.limit // never exceeded
	if mean < float64(ch.limit) {
		low = max(ch.v, int(mean))
	}
	need := -math.Log1p(-delta) / float64(ch.n)
	return search(low, ch.limit, near, func(length int) bool { return ch.sumBelow(length, need) })
}

// search returns the smallest i in [low, high] for which good holds, which it
// does from there on and at high. It is fastest if that is near near.
func search(low, high, near int, good func(int) bool) int {
	near = min(max(near, low), high)
	for step := 1; near < high; step *= 2 {
		next := min(near+step, high)
		if good(near) {
			high = near
			break
		}
		low, near = near+1, next
	}
	for step := 1; low < high; step *= 2 {
		next := max(high-step, low)
		if !good(next) {
			low = next + 1
			break
		}
		high = next
	}
	for low < high {
		middle := low + (high-low)/2
		if good(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// longer is the probability that there is a chain longer than length. The
// paper's sum of p_K (equation 2) or of q_G (Appendix B) telescopes: with
// p_i = α_i·Π_{j>i}(1−α_j),
//
//	Σ_{i>K} p_i = 1 − Π_{i>K} (1−α_i) = 1 − exp(N·Σ_{i>K} ln(1−p(i))).
func (ch chains) longer(length int) float64 {
	sum := ch.first(length)
	if ch.limit-length <= direct || ch.x > 1e-3 && ch.most(length) > 1e-12 {
		sum = ch.exact(length)
	} // else it is the same, nearly: its terms are at most x²
	return -math.Expm1(-float64(ch.n) * sum)
}

// direct is how many terms are summed up rather than taken as a difference.
const direct = 1000

// sumBelow reports whether −Σ ln(1−q(G, V)) over all G > length is below need.
func (ch chains) sumBelow(length int, need float64) bool {
	if ch.limit-length <= direct {
		return ch.exact(length) < need
	}
	sum := ch.first(length)
	switch { // q ≤ −ln(1−q) ≤ q/(1−q)
	case sum >= need:
		return false
	case sum < need*(1-ch.most(length)):
		return true
	}
	return ch.exact(length) < need
}

// most is at least every q(G, V) with G > length. A chain begins at a process
// with probability x and ends at a given one with at most x; beyond the most
// probable length q only falls.
func (ch chains) most(length int) float64 {
	most := ch.x * ch.x
	if float64(length)*ch.x > float64(ch.v) {
		most = min(most, math.Exp(ch.lnQ(length+1)))
	}
	return most
}

// lnQ is the logarithm of q(G, V), the probability that a chain of this length
// begins at a given process (Appendix B; p(K) = q(K+2, 2)):
//
//	q(G, V) = x^V · w^(G−V) · (G−2)! / ((V−2)!·(G−V)!)
//
// The factorials make V−2 factors; lgamma would lose them for large G.
func (ch chains) lnQ(length int) float64 {
	ln := float64(ch.v) * ch.lnX
	if length > ch.v {
		ln += float64(length-ch.v) * ch.lnW
	}
	for i := 1; i <= ch.v-2; i++ {
		ln += math.Log(float64(length-ch.v+i) / float64(i))
	}
	return ln
}

// exact is −Σ ln(1−q(G, V)) over G > length, term by term, until they no longer
// matter.
func (ch chains) exact(length int) float64 {
	if length >= ch.limit {
		return 0
	}
	sum, ln := 0.0, ch.lnQ(length+1)
	for g := length + 1; g <= ch.limit; g++ {
		q := math.Exp(ln)
		sum -= math.Log1p(-q)
		grow := float64(ch.v-2) / float64(g+1-ch.v)
		ln += ch.lnW + math.Log1p(grow)
		// From here on every term is at most this part of the one before.
		if part := math.Exp(ch.lnW) * (1 + grow); part < 1 && q*part <= sum*(1-part)*1e-17 {
			break
		}
	}
	return sum
}

// first is Σ q(G, V) over G > length. For every g-node it asks whether fewer
// than V−1 of the next length−1 processes are colored, and for the chains
// beyond the limit the same of the limit.
func (ch chains) first(length int) float64 {
	return ch.x * max(0, ch.few(length-1)-ch.few(ch.limit-1))
}

// few is the probability that at most V−2 of m processes are colored.
func (ch chains) few(m int) float64 {
	if math.IsInf(ch.lnW, -1) {
		return 0 // m ≥ V−1, all of them colored
	}
	sum, ln := 0.0, float64(m)*ch.lnW
	for i := 0; i <= ch.v-2 && i <= m; i++ {
		sum += math.Exp(ln)
		ln += ch.lnX - ch.lnW + math.Log(float64(m-i)/float64(i+1))
	}
	return min(sum, 1)
}

// Tune chooses T.
//
// GOS: the smallest T with n−c(T+L+O) < δ. The others: the T with the smallest
// latency (equations 3–5), among several the one that withstands the largest
// reduction in δ, that is, whose K̄ is least likely to be exceeded. With a
// margin they are compared as they would run, with K̄ of the T and gossip until
// T+O; K and C of the result are those of T+O.
func (u *Tuner) Tune(a Algorithm) (Tuning, error) {
	if err := u.serves(a); err != nil {
		return Tuning{}, err
	}
	choose := u.best
	if a == GOS {
		choose = u.alone
	}
	t, err := choose(a)
	if err != nil {
		return Tuning{}, err
	}
	return u.at(a, t)
}

// alone is the T of gossip alone, in units.
func (u *Tuner) alone(Algorithm) (int, error) {
	for t := 0; ; t++ {
		if err := u.reach(u.end(t)); err != nil {
			return 0, err
		}
		if u.uncolored[u.end(t)] < u.g.Delta {
			return t, nil
		}
	}
}

// best is the T with the smallest latency, margin included, in units.
func (u *Tuner) best(a Algorithm) (int, error) {
	margin := 0
	if u.g.Margin {
		margin = u.o
	}
	n, v := u.g.N, u.g.gNodes(a)
	// No T leaves shorter chains than endless gossip.
	least := newChains(n, u.g.Failed, v, float64(n-u.g.Failed), 0).bar(u.g.Delta, 0)
	latency, chain := math.MaxInt, n
	type candidate struct{ t, chain int }
	var ties []candidate
	for t := 0; ; t++ {
		if err := u.reach(u.end(t + margin)); err != nil {
			return 0, err
		}
		chain = u.chains(a, u.end(t)).bar(u.g.Delta, chain)
		least = min(least, chain)
		if u.latency(a, t, least) > latency {
			break
		}
		ends := u.latency(a, t, chain)
		if ends < latency {
			latency, ties = ends, ties[:0]
		}
		if ends == latency {
			ties = append(ties, candidate{t, chain})
		}
	}
	best, withstands := 0, math.Inf(1)
	for _, tie := range ties {
		exceeds := u.chains(a, u.end(tie.t+margin)).longer(tie.chain)
		if exceeds < withstands {
			best, withstands = tie.t, exceeds
		}
	}
	return best + margin, nil
}

// latency is until everything has ended with gossip until t, in units, and chains of the given number of processes.
func (u *Tuner) latency(a Algorithm, t, chain int) int {
	return u.end(t)*u.unit + u.corrects(a, u.length(a, chain))
}
