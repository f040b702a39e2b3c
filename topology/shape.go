// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 3.2: the four
// shapes of its evaluation.
//
// A shape says which tree is meant, apart from the number of ranks, their order
// and the LogP parameters. Each has a constructor that checks its arguments and
// a name to be read from flags and files.

package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// SizeMax is the largest number of ranks of a tree.
const SizeMax = 1 << 31

// Binomial returns the binomial tree of p ranks (section 3.2.2).
func Binomial(p int, order Order) (Tree, error) {
	return grown(p, 1, 1, order)
}

// Lame returns the Lamé tree of order k ≥ 1 with p ranks: a process may send k
// steps after its parent began to send to it, then at every step (section
// 3.2.2). Lamé of order 1 is the binomial tree.
func Lame(k, p int, order Order) (Tree, error) {
	if k < 1 {
		return nil, fmt.Errorf("lamé tree of order %d; allowed: 1 or more", k)
	}
	return grown(p, 1, k, order)
}

// Optimal returns the tree of p ranks that no other beats under LogP with
// latency l ≥ 0 and overhead o ≥ 1 (section 3.2.3). Lemma 1 covers it only where
// o divides l: otherwise it is as fast, but a few pairs of neighbours share an
// ancestor below the root (l=1, o=2, from 15 ranks on).
func Optimal(l, o, p int, order Order) (Tree, error) {
	if o < 1 || o > timeMax {
		return nil, fmt.Errorf("optimal tree for overhead o of %d; allowed: 1 to %d", o, timeMax)
	}
	if l < 0 || l > timeMax {
		return nil, fmt.Errorf("optimal tree for latency L of %d; allowed: 0 to %d", l, timeMax)
	}
	return grown(p, o, 2*o+l, order)
}

// timeMax keeps 2o+L from overflowing.
const timeMax = 1 << 60

// KAry returns the k-ary tree of p ranks, k ≥ 1 (section 3.2.1). The 1-ary tree
// is a chain.
func KAry(k, p int, order Order) (Tree, error) {
	if k < 1 {
		return nil, fmt.Errorf("k-ary tree with k of %d; allowed: 1 or more", k)
	}
	if err := checkSize(p); err != nil {
		return nil, err
	}
	return order.number(newKAry(p, k))
}

func grown(p, o, d int, order Order) (Tree, error) {
	if err := checkSize(p); err != nil {
		return nil, err
	}
	g, err := newGrowth(p, o, d)
	if err != nil {
		return nil, err
	}
	return order.number(g)
}

func checkSize(p int) error {
	if p < 1 || p > SizeMax {
		return fmt.Errorf("tree of %d ranks; allowed: 1 to %d", p, SizeMax)
	}
	return nil
}

// Shape names a tree apart from its size and order: binomial, kary:k, lame:k or
// optimal. The zero value is binomial.
type Shape struct {
	name shapeName
	k    int // of kary and lame
}

type shapeName uint8

const (
	binomialShape shapeName = iota
	karyShape
	lameShape
	optimalShape
)

// ParseShape reads binomial, kary:k, lame:k (k ≥ 1) or optimal.
func ParseShape(s string) (Shape, error) {
	switch s {
	case "binomial":
		return Shape{name: binomialShape}, nil
	case "optimal":
		return Shape{name: optimalShape}, nil
	}
	name, number, _ := strings.Cut(s, ":")
	k, err := strconv.Atoi(number)
	ok := err == nil && k >= 1
	switch {
	case name == "kary" && ok:
		return Shape{karyShape, k}, nil
	case name == "lame" && ok:
		return Shape{lameShape, k}, nil
	}
	return Shape{}, fmt.Errorf("tree %q; allowed: binomial, kary:k, lame:k (k ≥ 1), optimal", s)
}

// Tree returns the tree of this shape with p ranks. The LogP parameters l and o
// matter only to the optimal tree.
func (s Shape) Tree(p int, order Order, l, o int) (Tree, error) {
	switch s.name {
	case karyShape:
		return KAry(s.k, p, order)
	case lameShape:
		return Lame(s.k, p, order)
	case optimalShape:
		return Optimal(l, o, p, order)
	default:
		return Binomial(p, order)
	}
}
