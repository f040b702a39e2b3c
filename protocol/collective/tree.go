// Trees: data goes up to a root, down from it, or up and down again.
//
// Binomial: tasks form blocks of 1, 2, 4 … consecutive ranks, the last of each
// size perhaps shorter; neighbouring blocks unite, and the task that holds what
// both of them have is the root if it is among them, and the lowest otherwise.
// P−1 messages, ⌈log₂ P⌉ steps; blocks (gather, scatter) cross up to ⌈log₂ P⌉
// links. Down is up, backwards.
//
// Star: all send to the root, or the root to all. P−1 messages, of which the root handles all; data crosses one link.
// Where few processors serve many tasks it is the faster one for small P: only the root is woken to pass things on.
//
// Reductions combine in the blocks' order: 0 with 1, 2 with 3, then the pairs,
// and so on. This is the canonical association: every algorithm for reductions
// keeps it, except Ring and TwoLevel, which are for operations where order and
// association do not matter.

package collective

import "slices"

// An edge of a tree as one of its ends sees it: the tasks lo … lo+n−1 are those
// below it.
type edge struct {
	peer  Rank
	lo, n int32
	up    bool // this end is the lower one
}

// edges lists those of a task in the order in which data goes up.
type edges func(p int, self, root Rank) []edge

func star(p int, self, root Rank) (es []edge) {
	if self != root {
		return []edge{{root, int32(self), 1, true}}
	}
	for r := range Rank(p) {
		if r != root {
			es = append(es, edge{r, int32(r), 1, false})
		}
	}
	return es
}

func binomial(p int, self, root Rank) (es []edge) {
	for k := 0; 1<<k < p; k++ {
		base := self >> k << k
		other := base ^ 1<<k
		if int(other) >= p {
			continue
		}
		mine, theirs := holder(base, k, root), holder(other, k, root)
		if holder(min(base, other), k+1, root) != mine {
			return append(es, edge{theirs, int32(base), length(base, k, p), true})
		}
		es = append(es, edge{theirs, int32(other), length(other, k, p), false})
	}
	return es
}

// holder is the task that holds what a block of 2^k has.
func holder(base Rank, k int, root Rank) Rank {
	if root>>k<<k == base {
		return root
	}
	return base
}

// length is the number of tasks in a block of 2^k.
func length(base Rank, k, p int) int32 { return int32(min(1<<k, p-int(base))) }

// Lanes of messages up and down a tree.
const (
	laneUp = iota
	laneDown
	lanesTree
)

func span(lo, n int32) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = lo + int32(i)
	}
	return s
}

func (g *Program) send(to Rank, lane int, slots []int32) {
	g.Steps = append(g.Steps, Step{Kind: SendStep, Peer: to, Lane: uint16(lane), Slots: slots})
}

func (g *Program) recv(from Rank, lane int, slots []int32) {
	g.Steps = append(g.Steps, Step{Kind: RecvStep, Peer: from, Lane: uint16(lane), Slots: slots})
}

// along sends or receives along an edge, as data goes down or up.
func (g *Program) along(e edge, down bool, lane int, slots []int32) {
	if e.up != down {
		g.send(e.peer, lane, slots)
	} else {
		g.recv(e.peer, lane, slots)
	}
}

// fold combines slots with others, which may be the left operands.
func (g *Program) fold(slots, with []int32, before bool) {
	g.Steps = append(g.Steps, Step{Kind: FoldStep, Slots: slots, With: with, Before: before})
}

// gatherTree moves every task's block to the root.
func gatherTree(tree edges) maker {
	return func(p int, self, root Rank, _ int) Program {
		g := Program{Slots: p, In: span(int32(self), 1)}
		for _, e := range tree(p, self, root) {
			g.along(e, false, laneUp, span(e.lo, e.n))
		}
		if self == root {
			g.Out = span(0, int32(p))
		}
		return g.delivers()
	}
}

// scatterTree moves the root's blocks to their tasks.
func scatterTree(tree edges) maker {
	return func(p int, self, root Rank, _ int) Program {
		g := Program{Slots: p, Out: span(int32(self), 1)}
		if self == root {
			g.In = span(0, int32(p))
		}
		for _, e := range slices.Backward(tree(p, self, root)) {
			g.along(e, true, laneDown, span(e.lo, e.n))
		}
		return g.delivers()
	}
}

// broadcastTree moves the root's value to all, piece by piece.
func broadcastTree(tree edges) maker {
	return func(p int, self, root Rank, spans int) Program {
		g := Program{Slots: spans, Segments: spans, Out: []int32{0}}
		if self == root {
			g.In = []int32{0}
		}
		es := tree(p, self, root)
		for s := range spans {
			g.down(es, s)
		}
		return g.delivers()
	}
}

// down passes segment s of version 0 on.
func (g *Program) down(es []edge, s int) {
	for _, e := range slices.Backward(es) {
		g.along(e, true, s*lanesTree+laneDown, span(int32(s), 1))
	}
}

// reduceTree combines all values at the root, piece by piece. With all, the result
// then goes down to all tasks.
func reduceTree(tree edges, all bool) maker {
	return func(p int, self, root Rank, spans int) Program {
		es := tree(p, self, root)
		g := Program{Slots: (1 + len(es)) * spans, Segments: spans, In: []int32{0}}
		if all || self == root {
			g.Out = []int32{0}
		}
		for s := range spans {
			have := []partial{{int32(self), 1, 0}}
			for i, e := range es {
				if e.up {
					g.send(e.peer, s*lanesTree+laneUp, span(int32(s), 1))
					continue
				}
				g.recv(e.peer, s*lanesTree+laneUp, span(int32((1+i)*spans+s), 1))
				have = join(have, partial{e.lo, e.n, int32(1 + i)}, p, func(left, right *partial) { g.combine(left, right, s) })
			}
		}
		if all {
			for s := range spans {
				g.down(es, s)
			}
		}
		return g.delivers()
	}
}

// partial is the combined value of the tasks lo … lo+n−1, in a version.
type partial struct{ lo, n, version int32 }

// combine combines segment s of two neighbours, in version 0 if that is one of them.
func (g *Program) combine(left, right *partial, s int) {
	with, before := right.version, right.version == 0
	if before {
		left.version, with = 0, left.version
	}
	k := int32(g.Segments)
	g.fold(span(left.version*k+int32(s), 1), span(with*k+int32(s), 1), before)
}

// join adds what came to what a task of p has, by rank, and combines what can be: as early
// as possible, in the canonical association. fold is called for each pair, and sets
// in the left one where the result is.
func join(have []partial, came partial, p int, fold func(left, right *partial)) []partial {
	at, _ := slices.BinarySearchFunc(have, came.lo, func(b partial, lo int32) int { return int(b.lo - lo) })
	have = slices.Insert(have, at, came)
	for i := max(at-1, 0); i+1 < len(have); {
		a, b := &have[i], &have[i+1]
		if !neighbours(*a, *b, p) {
			if i > at {
				break
			}
			i++
			continue
		}
		fold(a, b)
		have = slices.Replace(have, i, i+2, partial{a.lo, a.n + b.n, a.version})
		at, i = i, max(i-1, 0)
	}
	return have
}

// neighbours reports whether the canonical association combines two blocks: the second is the next one of the same size,
// or what there is of it.
func neighbours(a, b partial, p int) bool {
	return b.lo == a.lo+a.n && a.lo%(2*a.n) == 0 && a.n&(a.n-1) == 0 && b.n == min(a.n, int32(p)-b.lo)
}

// delivers ends a program.
func (g Program) delivers() Program {
	g.Steps = append(g.Steps, Step{Kind: DeliverStep})
	return g.finished()
}

// finished sets in each step of a program what it must know of the others.
func (g Program) finished() Program {
	sent := false
	needed := make([]int32, g.Slots) // up to this step
	for i, st := range g.Steps {
		for _, at := range slices.Concat(st.Slots, st.With) {
			if st.Kind == RecvStep {
				g.Steps[i].free = max(g.Steps[i].free, needed[at])
			} else {
				needed[at] = int32(i + 1)
			}
		}
		mine := len(st.Slots) > 0 && int(st.Slots[0]) < g.Segments
		switch {
		case st.Kind == FoldStep:
			g.lastFold = i
			g.exposed = g.exposed || sent && mine
		case st.Kind == SendStep && mine:
			sent = true
		}
	}
	if g.lastFold > 0 {
		g.lookAhead()
	}
	return g
}

// lookAhead sets in sends and folds what becomes of their slots.
func (g *Program) lookAhead() {
	replaced := make([]bool, g.Slots) // later
	bundled := make([]bool, g.Slots)  // sent with others, before it is replaced
	next := make([]*Step, g.Slots)    // sends it, before it is replaced
	for i := len(g.Steps) - 1; i >= 0; i-- {
		st := &g.Steps[i]
		if st.Kind == SendStep {
			st.lasts = true
			for _, at := range st.Slots {
				st.lasts = st.lasts && !replaced[at]
				bundled[at] = bundled[at] || len(st.Slots) > 1
				next[at] = st
			}
			continue
		}
		if st.Kind == FoldStep && len(st.Slots) == 1 {
			at := st.Slots[0]
			if send := next[at]; send != nil && !bundled[at] {
				st.goes = !send.lasts || g.Out == nil || int(at) >= g.Segments
				st.to = send.Peer
			}
		}
		for _, at := range st.Slots {
			replaced[at], bundled[at], next[at] = true, false, nil
		}
	}
}
