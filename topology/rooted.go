// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 2: "without loss
// of generality we assume the root process to have rank 0". This is the
// generality.
//
// Turning all ranks by the same amount puts any rank at the root. Neighbours on
// the ring stay neighbours, so an interleaved tree stays interleaved.
//
// Cost: an addition a call.

package topology

// Rooted returns t with its ranks turned so that root, taken modulo the size,
// becomes the root. It returns t itself if root is its root already.
func Rooted(t Tree, root int) Tree {
	ring := Ring(t.Size())
	turn := ring.ToRight(t.Root(), root)
	if turn == 0 {
		return t
	}
	if inner, ok := t.(rooted); ok { // turn once, not twice
		return Rooted(inner.tree, root)
	}
	return rooted{tree: t, ring: ring, turn: turn}
}

// rooted is a tree whose rank r has become r+turn.
type rooted struct {
	tree Tree
	ring Ring
	turn int
}

func (t rooted) Size() int { return t.tree.Size() }
func (t rooted) Root() int { return t.forth(t.tree.Root()) }

func (t rooted) Parent(r int) int   { return t.forth(t.tree.Parent(t.back(r))) }
func (t rooted) Child(r, i int) int { return t.forth(t.tree.Child(t.back(r), i)) }

func (t rooted) back(r int) int {
	if r -= t.turn; r < 0 {
		r += int(t.ring)
	}
	return r
}

func (t rooted) forth(r int) int {
	if r < 0 {
		return -1
	}
	if r += t.turn; r >= int(t.ring) {
		r -= int(t.ring)
	}
	return r
}
