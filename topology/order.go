// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 3.2.
//
// One shape can be numbered in two ways. Interleaved numbering spreads every
// subtree over the ring, so that a failure leaves many small gaps; in-order
// numbering keeps it together, so that a failure leaves one large gap.

package topology

import "fmt"

// Order is the way the ranks of a tree are numbered.
type Order uint8

// The numberings.
const (
	Interleaved Order = iota // step by step: Definition 1
	InOrder                  // depth first
)

var orderNames = [...]string{Interleaved: "interleaved", InOrder: "in-order"}

func (o Order) String() string {
	if int(o) >= len(orderNames) {
		return fmt.Sprintf("Order(%d)", uint8(o))
	}
	return orderNames[o]
}

// ParseOrder reads what String writes.
func ParseOrder(s string) (Order, error) {
	for o, name := range orderNames {
		if s == name {
			return Order(o), nil
		}
	}
	return 0, fmt.Errorf("order %q; allowed: interleaved, in-order", s)
}

// number returns a shape, which is interleaved, in the given numbering.
func (o Order) number(s Tree) (Tree, error) {
	switch _, isChain := s.(chain); {
	case o > InOrder:
		return nil, fmt.Errorf("order %v; allowed: interleaved, in-order", o)
	case o == Interleaved || isChain: // a chain has only one order
		return s, nil
	default:
		return inOrder(s)
	}
}
