// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 3.2, for the
// shapes; Karp et al., Optimal Broadcast and Summation in the LogP Model (SPAA
// 1993), for the optimal tree where g > o: a process sends every max(g, o).
//
// The tree that fits a measured network is the one with the shortest broadcast of
// a short message, among shapes that a user can name. Measurements are noisy, so
// shapes that are nearly as fast count as equal, and the first of them is taken:
// the choice is then the same in most runs.

package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/coppice-go/coppice/topology"
)

// Prediction is the time of a broadcast along a tree.
type Prediction struct {
	Tree string // a shape, or Flat
	Time float64
}

// Flat names the tree in which the root sends to all others itself.
const Flat = "flat"

// Choice is the tree that fits a network.
type Choice struct {
	Prediction              // of the chosen one
	All        []Prediction // of all shapes, in the order in which the first of equals is taken; Flat last
	L, O       int          // what the optimal tree is made for: in the ratio of the network, about
}

// shapes are those to choose from, the usual first.
var shapes = []string{
	"binomial", "lame:2", "lame:3", "lame:4",
	"kary:2", "kary:3", "kary:4", "kary:5", "kary:6", "kary:7", "kary:8", "optimal",
}

// nearly is how much slower a tree may be to count as equal to the fastest.
const nearly = 1.02

// ChooseTree returns the tree that fits a network for broadcasts to p processes.
func ChooseTree(n LogGP, p int) (Choice, error) {
	if !isTime(n.Interval()) || !isTime(n.Delay()) || n.L < 0 {
		return Choice{}, fmt.Errorf("tree for L=%g, o=%g, g=%g; allowed: 0 or more, o and g not both 0", n.L, n.O, n.Gap)
	}
	var c Choice
	c.L, c.O = optimalFor(n)
	for _, name := range shapes {
		shape, err := topology.ParseShape(name)
		if err != nil {
			return Choice{}, err
		}
		tree, err := shape.Tree(p, topology.Interleaved, c.L, c.O)
		if err != nil {
			return Choice{}, err
		}
		c.All = append(c.All, Prediction{name, BroadcastTime(tree, n)})
	}
	fastest := slices.MinFunc(c.All, func(a, b Prediction) int { return cmp.Compare(a.Time, b.Time) }).Time
	c.Prediction = c.All[slices.IndexFunc(c.All, func(p Prediction) bool { return p.Time <= nearly*fastest })]
	flat := 0.0
	if p > 1 {
		flat = float64(p-2)*n.Interval() + n.Delay()
	}
	c.All = append(c.All, Prediction{Flat, flat})
	return c, nil
}

// BroadcastTime is the time in which a short message reaches all processes along a tree.
func BroadcastTime(t topology.Tree, n LogGP) float64 {
	return treeTime(t, n.Interval(), n.Delay())
}

// optimalFor returns the L and o, in quarters of the interval between sends and
// reduced, that make the optimal tree the one for a network: its processes send
// every o, first after 2o+L. Where that would need a negative L, it is 0.
func optimalFor(n LogGP) (l, o int) {
	const quarters, most = 4, 1 << 20
	first := min(n.Delay()/n.Interval(), most)
	l, o = max(0, int(math.Round(quarters*(first-2)))), quarters
	for l%2 == 0 && o%2 == 0 {
		l, o = l/2, o/2
	}
	return l, o
}
