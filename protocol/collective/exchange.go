// Algorithms without a root: in every round each task sends and receives.
//
// Doubling (reductions, scans, all-gather): in round k the tasks of a block of 2^k
// exchange what the block has with those of the neighbouring block; where P is no
// power of two the last block is shorter and each of its tasks serves several of
// the other. About P·⌈log₂ P⌉ messages, ⌈log₂ P⌉ steps, the whole value in each.
// The association is the canonical one. A scan keeps, besides the block's value,
// that of the block's tasks up to itself: the result of task r is what a
// reduction among r+1 tasks gives. An exclusive scan leaves the task's own value
// out: the result of task r is that of r tasks, and task 0 has none.
//
// Rabenseifner (all-reduce, reduce; P a power of two): doubling, but in round k a
// task sends the half of its segments that its partner keeps, so that each ends
// with one segment of the result (a reduce-scatter by doubling distances keeps
// the canonical association); then the segments are gathered the same way back,
// or sent to the root. 2·log₂ P steps, about 2n bytes a task.
//
// Ring (all-reduce, all-gather): to the right neighbour only. P−1 steps for
// all-gather, 2(P−1) for all-reduce, n/P bytes each. As an all-reduce it combines
// in another order for every segment: for exact and commutative operations only.
//
// Bruck (all-gather, all-to-all, reduce-scatter; Bruck et al., 1997): ⌈log₂ P⌉ steps of several
// blocks each; in all-to-all a block travels over one link for every bit set in
// the distance. For blocks small enough that messages, not bytes, cost.
//
// Direct (all-gather, all-to-all, reduce-scatter): every block straight to where it goes, in the
// order of a 1-factorization: each round pairs all tasks. P−1 messages a task,
// every byte once.
//
// Hub (all-gather, all-to-all, reduce-scatter): a star to task 0 and back. 2(P−1)
// messages in all, the fewest there can be.
//
// A reduce-scatter is an all-to-all after which a task combines what it got, in the
// canonical association: the same messages, and each task combines P blocks.

package collective

import (
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/topology"
)

// siblings returns the partners of a task in round k: it receives from one, and sends to several.
func siblings(p int, self Rank, k int) (from Rank, to []Rank) {
	base := self >> k << k
	other := base ^ 1<<k
	if int(other) >= p {
		return -1, nil
	}
	mine, theirs := Rank(length(base, k, p)), Rank(length(other, k, p))
	at := self - base
	for r := at; r < theirs; r += mine {
		to = append(to, other+r)
	}
	return other + at%theirs, to
}

func rounds(p int) int { return bits.Len(uint(p - 1)) }

// doubling is for AllReduce, Scan and ExScan. In scans version 0 is the result and
// version 1 the block's value; otherwise version 0 is both. In an exclusive scan
// version 0 begins as what the first lower block sends.
func doubling(op Op) maker {
	return func(p int, self, _ Rank, _ int) Program {
		g := Program{Segments: 1, In: []int32{0}, Out: []int32{0}}
		total, next := int32(0), int32(1)
		scan, empty := op != AllReduce, op == ExScan // empty: version 0 is
		if scan {
			g.In, total, next = []int32{0, 1}, 1, 2
		}
		if empty {
			g.In = []int32{1}
			if self == 0 {
				g.Out = nil
			}
		}
		for k := range rounds(p) {
			from, to := siblings(p, self, k)
			if from < 0 {
				continue
			}
			for _, r := range to {
				g.send(r, k, span(total, 1))
			}
			lower := from < self
			more := !scan || 1<<(k+1) < p
			first := empty && lower
			came := next
			if first {
				came, empty = 0, false
			} else {
				next++
			}
			g.recv(from, k, span(came, 1))
			if scan && lower && !first {
				g.Steps = append(g.Steps, Step{Kind: FoldStep, Slots: []int32{0}, With: []int32{came}, Before: true, Keep: more})
			}
			if more {
				g.Steps = append(g.Steps, Step{Kind: FoldStep, Slots: []int32{total}, With: []int32{came}, Before: lower, Keep: first})
			}
		}
		g.Slots = int(next)
		return g.delivers()
	}
}

// rabenseifner: segments 0 … P−1; version 1+k is what round k brings.
func rabenseifner(all bool) maker {
	return func(p int, self, root Rank, _ int) Program {
		n := rounds(p)
		g := Program{Segments: p, Slots: (1 + n) * p, In: []int32{0}}
		if all || self == root {
			g.Out = []int32{0}
		}
		lo, count := int32(0), int32(p)
		var halves [][2]int32 // lo and count of what was given away, by round
		for k := range n {
			partner := self ^ 1<<k
			count /= 2
			keep, give := lo, lo+count
			if self>>k&1 == 1 {
				keep, give = give, keep
			}
			from := int32((1+k)*p) + keep
			g.send(partner, k, span(give, count))
			g.recv(partner, k, span(from, count))
			g.fold(span(keep, count), span(from, count), partner < self)
			lo, halves = keep, append(halves, [2]int32{give, count})
		}
		if all {
			for k := n - 1; k >= 0; k-- {
				partner, h := self^1<<k, halves[k]
				g.send(partner, n+k, span(lo, h[1]))
				g.recv(partner, n+k, span(h[0], h[1]))
				lo = min(lo, h[0])
			}
			return g.delivers()
		}
		if self != root {
			g.send(root, n, span(lo, 1))
			return g.delivers()
		}
		for r := range Rank(p) {
			if r != root {
				g.recv(r, n, span(kept(p, r), 1))
			}
		}
		return g.delivers()
	}
}

// kept is the segment that a task ends with in a reduce-scatter by doubling.
func kept(p int, r Rank) int32 {
	lo, count := int32(0), int32(p)
	for k := 0; count > 1; k++ {
		count /= 2
		if r>>k&1 == 1 {
			lo += count
		}
	}
	return lo
}

func mod(a Rank, p int) Rank { return (a%Rank(p) + Rank(p)) % Rank(p) }

// ringAllReduce: version 1+k is what round k brings.
func ringAllReduce(p int, self, _ Rank, _ int) Program {
	g := Program{Segments: p, Slots: p * p, In: []int32{0}, Out: []int32{0}}
	right, left := mod(self+1, p), mod(self-1, p)
	for k := range p - 1 {
		out, in := int32(mod(self-Rank(k), p)), int32(mod(self-Rank(k)-1, p))
		from := int32((1+k)*p) + in
		g.send(right, k, span(out, 1))
		g.recv(left, k, span(from, 1))
		g.fold(span(in, 1), span(from, 1), true)
	}
	g.ring(p, self, mod(self+1, p), p)
	return g.delivers()
}

// ring passes blocks on around the ring; first is the one the task begins with.
func (g *Program) ring(p int, self, first Rank, lane int) {
	right, left := mod(self+1, p), mod(self-1, p)
	for k := range Rank(p - 1) {
		g.send(right, lane+int(k), span(int32(mod(first-k, p)), 1))
		g.recv(left, lane+int(k), span(int32(mod(first-k-1, p)), 1))
	}
}

func ringAllGather(p int, self, _ Rank, _ int) Program {
	g := Program{Slots: p, In: span(int32(self), 1), Out: span(0, int32(p))}
	g.ring(p, self, self, 0)
	return g.delivers()
}

// scatterAllGather broadcasts a large value (van de Geijn): every task gets a
// segment down the tree, then they go around the ring.
func scatterAllGather(p int, self, root Rank, _ int) Program {
	g := Program{Segments: p, Slots: p, Out: []int32{0}}
	if self == root {
		g.In = []int32{0}
	}
	for _, e := range slices.Backward(binomial(p, self, root)) {
		g.along(e, true, 0, span(e.lo, e.n))
	}
	scattered := len(g.Steps)
	g.ring(p, self, self, 1)
	// The root has it all, and a task that passed segments on has those.
	around := slices.DeleteFunc(g.Steps[scattered:], func(st Step) bool {
		return st.Kind == RecvStep && holds(p, self, root, st.Slots[0]) || st.Kind == SendStep && holds(p, st.Peer, root, st.Slots[0])
	})
	g.Steps = g.Steps[:scattered+len(around)]
	return g.delivers()
}

// holds reports whether a task has a segment after the scatter.
func holds(p int, r, root Rank, segment int32) bool {
	if r == root {
		return true
	}
	es := binomial(p, r, root)
	e := es[len(es)-1]
	return segment >= e.lo && segment < e.lo+e.n
}

// doublingAllGather: blocks of 2^k tasks exchange all they have.
func doublingAllGather(p int, self, _ Rank, _ int) Program {
	g := Program{Slots: p, In: span(int32(self), 1), Out: span(0, int32(p))}
	for k := range rounds(p) {
		from, to := siblings(p, self, k)
		if from < 0 {
			continue
		}
		base := self >> k << k
		for _, r := range to {
			g.send(r, k, span(int32(base), length(base, k, p)))
		}
		other := base ^ 1<<k
		g.recv(from, k, span(int32(other), length(other, k, p)))
	}
	return g.delivers()
}

// bruckAllGather: slot i holds the block of task self+i.
func bruckAllGather(p int, self, _ Rank, _ int) Program {
	g := Program{Slots: p, In: []int32{0}}
	for r := range Rank(p) {
		g.Out = append(g.Out, int32(mod(r-self, p)))
	}
	for k := range rounds(p) {
		d := Rank(1) << k
		n := int32(min(int(d), p-int(d)))
		g.send(mod(self-d, p), k, span(0, n))
		g.recv(mod(self+d, p), k, span(int32(d), n))
	}
	return g.delivers()
}

// bruckAllToAll: distance i stands for the block that has i more to travel, at
// first the one for task self+i, at last the one of task self−i. What comes gets
// new slots: the old ones may still have to be sent.
func bruckAllToAll(p int, self, _ Rank, _ int) Program {
	g := Program{Slots: p}
	at := span(0, int32(p)) // by distance
	for r := range Rank(p) {
		g.In = append(g.In, at[mod(r-self, p)])
	}
	for k := range rounds(p) {
		var out, in []int32
		for i := range at {
			if i>>k&1 == 1 {
				out, in = append(out, at[i]), append(in, int32(g.Slots))
				at[i] = int32(g.Slots)
				g.Slots++
			}
		}
		d := Rank(1) << k
		g.send(mod(self+d, p), k, out)
		g.recv(mod(self-d, p), k, in)
	}
	for r := range Rank(p) {
		g.Out = append(g.Out, at[mod(self-r, p)])
	}
	return g.delivers()
}

// window is how many rounds of a direct exchange are under way at a time.
const window = 4

// partners lists the tasks that a task meets, round by round.
func partners(p int, self Rank) (met []Rank) {
	factor := topology.OneFactor(p)
	for k := range factor.Rounds() {
		if r := factor.Partner(int(self), k); r >= 0 {
			met = append(met, Rank(r))
		}
	}
	return met
}

// direct sends every block straight to where it goes. Slot r is for task r at
// first, slot P+r of task r.
func direct(gathers bool) maker {
	return func(p int, self, _ Rank, _ int) Program {
		g := Program{Slots: 2 * p, In: span(0, int32(p)), Out: span(int32(p), int32(p))}
		g.Out[self] = int32(self)
		if gathers {
			g.Slots, g.In, g.Out = p, span(int32(self), 1), span(0, int32(p))
		}
		met := partners(p, self)
		for k := range p - 1 + window {
			if k < p-1 {
				slot := int32(met[k])
				if gathers {
					slot = int32(self)
				}
				g.send(met[k], 0, span(slot, 1))
			}
			if i := k - window; i >= 0 {
				slot := int32(p) + int32(met[i])
				if gathers {
					slot = int32(met[i])
				}
				g.recv(met[i], 0, span(slot, 1))
			}
		}
		return g.delivers()
	}
}

// hubAllToAll: slot s·P+d holds the block from s to d, at task 0; elsewhere slots
// 0 … P−1 hold first what the task sends and then what it gets.
func hubAllToAll(p int, self, _ Rank, _ int) Program {
	n := int32(p)
	if self != 0 {
		g := Program{Slots: 2 * p, In: span(0, n), Out: span(n, n)}
		g.send(0, laneUp, span(0, n))
		g.recv(0, laneDown, span(n, n))
		return g.delivers()
	}
	column := func(d int32) (slots []int32) {
		for s := range n {
			slots = append(slots, s*n+d)
		}
		return slots
	}
	g := Program{Slots: p * p, In: span(0, n), Out: column(0)}
	for s := int32(1); s < n; s++ {
		g.recv(Rank(s), laneUp, span(s*n, n))
	}
	for d := int32(1); d < n; d++ {
		g.send(Rank(d), laneDown, column(d))
	}
	return g.delivers()
}

// reduceScatter is an all-to-all of parts, of which a task combines those that it gets.
func reduceScatter(allToAll maker) maker {
	return func(p int, self, root Rank, spans int) Program {
		g := allToAll(p, self, root, spans)
		own := g.In[self]
		sender := make([]Rank, g.Slots) // whose part comes to a slot, to stay
		for i := range sender {
			sender[i] = self
		}
		for r, at := range g.Out {
			sender[at] = Rank(r)
		}
		steps := g.Steps[:len(g.Steps)-1]
		g.Steps = nil
		have := []partial{{int32(self), 1, own}}
		for _, st := range steps {
			g.Steps = append(g.Steps, st)
			if st.Kind != RecvStep {
				continue
			}
			for _, at := range st.Slots {
				if r := sender[at]; r != self {
					have = join(have, partial{int32(r), 1, at}, p, func(left, right *partial) { g.combineBlocks(left, right, own) })
				}
			}
		}
		g.Out = []int32{have[0].version}
		return g.delivers()
	}
}

// combineBlocks combines two neighbours in the slot of one that is not the task's own.
func (g *Program) combineBlocks(left, right *partial, own int32) {
	at, with, before := left.version, right.version, false
	if at == own {
		at, with, before = with, at, true
	}
	g.fold([]int32{at}, []int32{with}, before)
	left.version = at
}

// hubAllGather: all blocks to task 0, and all of them from there to all tasks.
func hubAllGather(p int, self, _ Rank, _ int) Program {
	n := int32(p)
	g := Program{Slots: p, In: span(int32(self), 1), Out: span(0, n)}
	for _, e := range star(p, self, 0) {
		if e.up {
			g.send(0, laneUp, span(e.lo, 1))
			g.recv(0, laneDown, span(0, n))
			return g.delivers()
		}
		g.recv(e.peer, laneUp, span(e.lo, 1))
	}
	for r := Rank(1); r < Rank(p); r++ {
		g.send(r, laneDown, span(0, n))
	}
	return g.delivers()
}
