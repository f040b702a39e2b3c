// Source: the thesis, section 6.1.1 and equation 6.1.
//
// The distance model is for networks in which a message costs L for each hop, such as a torus: a level of the tree takes
// as long as the farthest parent and child of it are apart, there and back. Equation 6.1 sums over the levels and
// multiplies by H−1 as well; the text ("the sum over all levels in the tree of the maximum distance") means the sum
// alone. It bounds from above, for the farthest pairs of two levels need not be on one path.
//
// Cost: one look at each member.

package model

import "github.com/coppice-go/coppice/topology"

// Hops is how many hops two members are apart.
type Hops func(from, to int) int

// HopsByLevel returns for each level of links of the radix tree, from the root
// down, the largest number of hops between a parent and its child.
func HopsByLevel(a, n int, hops Hops) ([]int, error) {
	tree, err := topology.Radix(a, n)
	if err != nil {
		return nil, err
	}
	most := make([]int, Levels(a, n)-1)
	for r := 1; r < n; r++ {
		level := tree.Level(r) - 1
		most[level] = max(most[level], hops(tree.Parent(r), r))
	}
	return most, nil
}

// StabilizationDistance is T_s of the distance model: 2·L·Σ max hops + O_cp·H.
func StabilizationDistance(a, n int, hops Hops, l, ocp float64) (float64, error) {
	most, err := HopsByLevel(a, n, hops)
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, h := range most {
		sum += h
	}
	return 2*l*float64(sum) + ocp*float64(len(most)+1), nil
}
