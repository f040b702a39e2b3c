// Source: Varma, Scalable, Fault-Tolerant Membership for Group Communication on
// HPC Systems (NCSU 2006), chapter 4 and section 6.1, the thesis below.
//
// The thesis's stabilization time is that of one sweep down the radix tree and one up: from the moment the root knows of a
// failure until it has all answers. A tree of height H has H levels of nodes and H−1 of links. The base model charges the
// latency L of a message twice for each level of links and computing O_cp once for each level of nodes; it steps where
// the height does, and the fan-out a matters to it only by the height. The thesis's refinements put another latency in the
// place of L: see membershipdistance.go and membershipcontention.go.
//
// Under LogP a message takes 2o+L, and the i-th child, counted from 0, is sent to
// i·o after the first: the last one of each level costs (a−1)·o more. It costs that
// on the way down only, since answers come back as far apart as they were asked
// for. That is exact for full trees; StabilizationFilled counts the rest.
//
// Cost: O(log n) steps; StabilizationFilled a times as many.

package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/coppice-go/coppice/topology"
)

// Levels is H, the number of levels of the radix tree of n members with up to a
// children each; that of the root is one of them.
func Levels(a, n int) int {
	levels := 1
	for last, width := 1, a; last < n; width *= a {
		last += width
		levels++
	}
	return levels
}

// StabilizationBase is T_s of the base model, equations 4.1 and 4.2:
// 2·L·(H−1) + O_cp·H.
func StabilizationBase(a, n int, l, ocp float64) float64 {
	h := float64(Levels(a, n))
	return 2*l*(h-1) + ocp*h
}

// Stabilization is T_s under LogP: (2·(2o+L) + (a−1)·o)·(H−1) + O_cp·H, with
// max(o, g) for the o between two sends. A root with fewer than a children counts
// those it has.
func Stabilization(a, n int, net LogGP, ocp float64) float64 {
	if n == 1 {
		return ocp
	}
	h := float64(Levels(a, n))
	later := float64(min(a, n-1)-1) * net.Interval()
	return (2*net.Delay()+later)*(h-1) + ocp*h
}

// StabilizationFilled is Stabilization for a last level that may be filled in part:
// what a simulation comes to. Of the radix tree's last level, the places of one
// subtree are dealt out to its children in turn, so a subtree is known by its level
// and by how many of them it has, and there are two sorts of subtrees a level.
func StabilizationFilled(a, n int, net LogGP, ocp float64) float64 {
	f := filling{a: a, last: Levels(a, n) - 1, net: net, ocp: ocp, known: map[[2]int]float64{}}
	width, start := 1, 0
	for range f.last {
		start += width
		width *= a
	}
	return ocp + f.time(0, n-start)
}

// filling is a radix tree whose last level is filled in part.
type filling struct {
	a, last int // fan-out; number of the last level, counted from 0
	net     LogGP
	ocp     float64
	known   map[[2]int]float64
}

// time is how long a node at a level, with k below it at the last one, takes from when it begins to send until it has all
// answers. A node without children answers as soon as it has computed. Answers that come together are received one after
// the other.
func (f *filling) time(level, k int) float64 {
	if level == f.last || level == f.last-1 && k == 0 {
		return 0
	}
	key := [2]int{level, k}
	if t, ok := f.known[key]; ok {
		return t
	}
	var answers []float64 // when they arrive
	for i := range f.a {
		below := (k + f.a - 1 - i) / f.a
		if level == f.last-1 && below == 0 {
			break
		}
		sent := float64(i) * f.net.Interval()
		answers = append(answers, sent+f.net.Delay()+f.ocp+f.time(level+1, below)+f.net.Delay()-f.net.O)
	}
	slices.Sort(answers)
	end, free := 0.0, 0.0
	for _, at := range answers {
		at = max(at, free)
		free = at + f.net.Interval()
		end = at + f.net.O
	}
	f.known[key] = end
	return end
}

// Fanout is what a fan-out costs.
type Fanout struct {
	A             int     // children of a member, at most
	Levels        int     // H
	Stabilization float64 // T_s by the model
	Filled        float64 // … with the last level as far as it is filled
}

// fanoutMax bounds the fan-outs to choose from: a member has that many connections
// at hand.
const fanoutMax = 1 << 10

// FanoutFor returns the fan-outs that n members may have, powers of two, and which of them has the least T_s under LogP;
// the smaller one of equals, which is gentler to parents.
func FanoutFor(n int, net LogGP, ocp float64) (best Fanout, all []Fanout, err error) {
	switch {
	case n < 1 || n > topology.SizeMax:
		return best, nil, fmt.Errorf("%d members; allowed: 1 to %d", n, topology.SizeMax)
	case !isTime(net.Interval()) || !isTime(net.Delay()) || net.L < 0 || net.O < 0:
		return best, nil, fmt.Errorf("fan-out for L=%g, o=%g, g=%g; allowed: 0 or more, o and g not both 0", net.L, net.O, net.Gap)
	case !(ocp >= 0) || math.IsInf(ocp, 1):
		return best, nil, fmt.Errorf("computing takes %g; allowed: 0 or more", ocp)
	}
	for a := 2; a <= fanoutMax; a *= 2 {
		f := Fanout{a, Levels(a, n), Stabilization(a, n, net, ocp), StabilizationFilled(a, n, net, ocp)}
		all = append(all, f)
		if best.A == 0 || f.Stabilization < best.Stabilization {
			best = f
		}
		if a >= n-1 { // every other member is a child of the root
			break
		}
	}
	return best, all, nil
}

// Machine is what the thesis says of a machine it measured; times in µs. Its L is
// half a round trip, both overheads included: LogP's 2o+L.
type Machine struct {
	Name string
	L    float64 // between neighbours
	Ocp  float64 // of computing at each level
}

// The thesis's machines, by section. The thesis names O_cp of the clusters O_cm, a
// slip; of Myrinet it gives none, so the same nodes' over TCP is taken.
var (
	BlueGeneL        = Machine{"BG/L, MPI", 4.6, 2}                  // 6.1.1
	OSClusterTCP     = Machine{"OS cluster, TCP", 94, 2.3}           // 6.1.2
	OSClusterMyrinet = Machine{"OS cluster, Myrinet MPI", 13.6, 2.3} // 6.1.2
	XTORC            = Machine{"XTORC, TCP", 118, 2}                 // 6.1.3
)

// Base is T_s of the base model on the machine.
func (m Machine) Base(a, n int) float64 { return StabilizationBase(a, n, m.L, m.Ocp) }
