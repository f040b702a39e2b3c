// The exception to the rule of this package: a tree in tables.
//
// In-order trees take microseconds to answer, which a simulation of many runs
// over one tree need not pay again and again. Tabulate asks once and keeps
// parents and children as 32-bit ranks, the children of all ranks in one list.
//
// Cost: 12 bytes a rank; Child and Parent in O(1).

package topology

import "slices"

// Tabulate returns a tree that gives the same answers as t from tables.
func Tabulate(t Tree) Tree {
	switch t := t.(type) {
	case *table:
		return t
	case rooted:
		return Rooted(Tabulate(t.tree), t.Root())
	case inOrder:
		// Numbering a whole shape depth first needs no subtree sizes.
		number, rank := depthFirst(t.shape)
		return newTable(t, func(q, i int) int {
			child := t.shape.Child(int(rank[q]), i)
			if child < 0 {
				return -1
			}
			return int(number[child])
		})
	default:
		return newTable(t, t.Child)
	}
}

// Quick returns t in the form that answers fastest to whoever asks about every
// rank: an in-order tree as a table, unless it is so large that the table would
// hurt, every other tree as it is.
func Quick(t Tree) Tree {
	const ranksMax = 1 << 26 // 768 MiB
	if _, slow := t.(inOrder); slow && t.Size() <= ranksMax {
		return Tabulate(t)
	}
	return t
}

type table struct {
	root     int
	parent   []int32
	first    []int32 // children[first[r]:first[r+1]] are the children of r
	children []int32
}

func newTable(t Tree, child func(r, i int) int) *table {
	p := t.Size()
	tab := &table{
		root:     t.Root(),
		parent:   make([]int32, p),
		first:    make([]int32, p+1),
		children: make([]int32, 0, p-1),
	}
	tab.parent[tab.root] = -1
	for r := range p {
		for i := 0; ; i++ {
			c := child(r, i)
			if c < 0 {
				break
			}
			tab.parent[c] = int32(r)
			tab.children = append(tab.children, int32(c))
		}
		tab.first[r+1] = int32(len(tab.children))
	}
	return tab
}

func (t *table) Size() int        { return len(t.parent) }
func (t *table) Root() int        { return t.root }
func (t *table) Parent(r int) int { return int(t.parent[r]) }

func (t *table) Child(r, i int) int {
	first, end := int(t.first[r]), int(t.first[r+1])
	if uint(i) >= uint(end-first) {
		return -1
	}
	return int(t.children[first+i])
}

// depthFirst returns the depth-first number of every rank, and the inverse.
func depthFirst(t Tree) (number, rank []int32) {
	number = make([]int32, t.Size())
	rank = make([]int32, 0, t.Size())
	pending := []int32{int32(t.Root())}
	for len(pending) > 0 {
		r := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		number[r] = int32(len(rank))
		rank = append(rank, r)
		first := len(pending)
		for i := 0; ; i++ {
			c := t.Child(int(r), i)
			if c < 0 {
				break
			}
			pending = append(pending, int32(c))
		}
		slices.Reverse(pending[first:])
	}
	return number, rank
}

// Canonical returns a tree of the same shape as t, children in the same order,
// in the numbering that is cheapest to walk. What depends on the shape alone,
// such as the latency of a broadcast without failures, can be computed there.
func Canonical(t Tree) Tree {
	switch t := t.(type) {
	case rooted:
		return Canonical(t.tree)
	case inOrder:
		return t.shape
	default:
		return t
	}
}
