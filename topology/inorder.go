// Source: Küttler et al., Corrected Trees (PPoPP 2019), sections 1 and 3.2
// (Figures 1a, 3 and 4, left), where it is what to avoid.
//
// The in-order numbering gives the ranks of a shape in the order of a
// depth-first traversal, children in sending order, so that a subtree is a run
// of consecutive ranks. A rank is found by descending from the root and
// skipping the subtrees that end before it. The shape is the truncated
// interleaved one: both numberings broadcast equally fast without failures.
//
// Cost: no table; Child and Parent take one subtree size for every sibling
// that is skipped on the way down, O(log P) of them in a binomial tree. Where
// that is too slow, Tabulate.

package topology

// inOrder is a shape numbered depth first.
type inOrder struct{ shape shape }

func (t inOrder) Size() int { return t.shape.Size() }
func (t inOrder) Root() int { return 0 }

func (t inOrder) Parent(q int) int {
	_, parent := t.find(q)
	return parent
}

func (t inOrder) Child(q, i int) int {
	r, _ := t.find(q)
	if t.shape.Child(r, i) < 0 {
		return -1
	}
	child := q + 1
	for j := range i {
		child += t.shape.subtree(t.shape.Child(r, j))
	}
	return child
}

// find returns the shape's rank of q, and q's parent.
func (t inOrder) find(q int) (r, parent int) {
	r, parent = 0, -1
	for at := 0; at < q; {
		parent = at
		at++
		for i := 0; ; i++ {
			child := t.shape.Child(r, i)
			if size := t.shape.subtree(child); q >= at+size {
				at += size
				continue
			}
			r = child
			break
		}
	}
	return r, parent
}
