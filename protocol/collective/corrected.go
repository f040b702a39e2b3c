// Reductions that survive failures. Source: Küttler, Härtig, Fault-tolerant Reduce and Allreduce operations based on
// correction, arXiv:2602.22445, 2026: groups of f+1 tasks exchange their inputs (up-correction), then trees reduce. The
// paper's semantics hold for f deaths before or during the operation; how a task stops waiting for dead ones, the order
// of the inputs and the way down are ours.
//
// Up. The root and a−1 others, a = 1 + (P−1) mod (f+1), are one group; the rest are q = ⌊(P−1)/(f+1)⌋ groups of f+1. In
// each group every task sends its input to every other and waits for that of every other, or for the news of its death.
// There are f+1 trees: tree j is made of the j-th task of every full group, and all have the same shape. A task combines
// what its children send it with the inputs of its own group, and sends that to its parent; the parent of the topmost
// tasks is the root, which takes, for each of their places, what comes first from any of the f+1 trees. If a child dies
// before it has sent, or says that one below it has, the task's part is void, and it says so instead. So no task waits
// for ever: a task waits for its group and its children only, and each of them sends, says that it is void, or is dead.
//
// Down (AllReduce). The root sends the result along the f+1 trees and to its group. A task that gets it, from any other,
// sends it to its children and, as a correction, to its group, and delivers. It waits for nothing else any more once it
// has the result.
//
// Cost. Up: f(f+1)q + a(a−1) messages in groups, as in the paper, and (f+1)q along the trees (the paper's trees have P−1:
// those of the root's group have nothing to add). Down: P−1, and at most f(f+1)q corrections. A tree of depth d takes d+1
// steps; Binomial ones have d = ⌊log₂ q⌋+1, flat ones, in which the root is the parent of all, 1. A message of a tree is
// as many values as the inputs in it make blocks of the canonical association: of c neighbouring ranks at most 2·log₂ c,
// and one if they are a block.
//
// What it survives. Let at most f tasks die, before the operation or at any moment of it, and the root live.
//
//  1. One of the f+1 trees has no dead task, since they have no task in common.
//  2. So each of its tasks sends: it waits for its children, which are of the tree and send; and for its group, of which
//     each task lives, and sends, or is dead, and the news comes. The root gets all that it needs, from that tree or from
//     others.
//  3. On the way down, each task of that tree has the result from its parent or from an earlier sender, and sends it to
//     its group. Every full group has a task of the tree, and the root is in the other group: all live tasks have the
//     result.
//
// With more deaths the root may find every tree void, and then delivers UnreachedStep. Flat trees are never void: a group
// that is silent is dead, and has no input that is due; they survive any deaths but the root's. If the root dies there
// may be no result, and on the way down it may reach some and not others.
//
// Which inputs are in the result. Every input of a task that lives to the end: each of its group waits for it until it
// has come, for only deaths excuse, and every full group is in what the root takes, once. The input of a task that died
// is in the result or it is not: it may have reached some of its group and not others, which know nothing of each other;
// but the root takes each group's inputs from one of them, as they are there, and it is the root's result that all others
// get: it is the same bits everywhere. Values are combined in the canonical association of all P ranks, in which missing
// ones are left out: if none is missing, the bits are those of any other algorithm.
//
// What it needs to know. The tasks that wait for what a dead task did not send, its group and its parent, must learn of
// its death (protocol.Death), each at its own time. No tasks agree on which ones are dead, and a death after the exchange
// need not be known at all in AllReduce. Without any news it cannot be done: a task that died before the operation and
// one that is slow look the same, and the input of the second is due.

package collective

import (
	"fmt"
	"math/bits"
	"slices"
)

// FailuresMax bounds the deaths that a reduction survives: every task sends its input to as many others.
const FailuresMax = 64

// Lanes of messages in corrected reductions.
const (
	laneInput  = iota // a task's input, to its group
	laneTree          // what a tree has so far
	laneVoid          // that it will never have that
	LaneResult        // the root's result, from any task that has it
)

// corrects reports whether an algorithm is one of these.
func corrects(a Algorithm) bool { return a == Corrected || a == CorrectedFlat }

// newCorrected returns the schedule of a corrected reduction.
func newCorrected(spec Spec) (*Schedule, error) {
	switch {
	case spec.Op != Reduce && spec.Op != AllReduce:
		return nil, fmt.Errorf("%v by %v; allowed: %v, %v", spec.Op, spec.Algorithm, Reduce, AllReduce)
	case spec.Failures < 0 || spec.Failures > FailuresMax:
		return nil, fmt.Errorf("%v against %d failures; allowed: 0 to %d", spec.Algorithm, spec.Failures, FailuresMax)
	case spec.Spans > 1:
		return nil, fmt.Errorf("%v by %v in %d pieces; allowed: in one", spec.Op, spec.Algorithm, spec.Spans)
	case spec.Root < 0 || int(spec.Root) >= spec.P:
		return nil, fmt.Errorf("root %d; allowed: 0 to %d", spec.Root, spec.P-1)
	}
	c := newForest(spec.P, spec.Failures, spec.Root, spec.Algorithm == CorrectedFlat)
	all := spec.Op == AllReduce
	return &Schedule{P: spec.P, Program: func(self Rank) Program { return c.program(self, all) }}, nil
}

// forest says which task is where: in the root's group, or in place k of tree j, which makes it the j-th of full group k.
// Groups are of neighbouring ranks, so that what they have in common is few blocks.
type forest struct {
	p, size int // tasks, and those of a full group: f+1
	root    Rank
	flat    bool
	rest    int  // tasks of the root's group
	first   int  // the lowest of them but for the root
	near    int  // how many of them are in a row from there on
	apart   bool // the root is not among these
}

func newForest(p, failures int, root Rank, flat bool) forest {
	c := forest{p: p, size: failures + 1, root: root, flat: flat}
	c.rest = 1 + (p-1)%c.size
	c.first = int(root) / c.size * c.size
	c.near = c.rest
	if c.apart = int(root) >= c.first+c.rest; c.apart {
		c.near--
	}
	return c
}

// places is the number of full groups.
func (c *forest) places() int { return (c.p - 1) / c.size }

// at is the place and the tree of a task; place −1: it is in the root's group.
func (c *forest) at(r Rank) (place, tree int) {
	if r == c.root || int(r) >= c.first && int(r) < c.first+c.near {
		return -1, 0
	}
	i := int(r)
	if i >= c.first {
		i -= c.near
	}
	if c.apart && r > c.root {
		i--
	}
	return i / c.size, i % c.size
}

// task is the reverse of at.
func (c *forest) task(place, tree int) Rank {
	r := place*c.size + tree
	if r >= c.first {
		r += c.near
	}
	if c.apart && r >= int(c.root) {
		r++
	}
	return Rank(r)
}

// group lists the tasks of a group in rising order.
func (c *forest) group(place int) (tasks []Rank) {
	if place >= 0 {
		for tree := range c.size {
			tasks = append(tasks, c.task(place, tree))
		}
		return tasks
	}
	for i := range c.near {
		tasks = append(tasks, Rank(c.first+i))
	}
	if c.apart {
		tasks = append(tasks, c.root)
	}
	return tasks
}

// parent returns the place above one; −1: the root.
func (c *forest) parent(place int) int {
	if c.flat || place == 0 {
		return -1
	}
	return place & (place - 1)
}

// children lists the places below one, those with few below them first; of −1, the
// topmost.
func (c *forest) children(place int) (below []int) {
	switch q := c.places(); {
	case place < 0 && c.flat:
		for k := range q {
			below = append(below, k)
		}
	case place < 0:
		below = make([]int, min(q, 1))
	case !c.flat:
		for b := 1; place+b < q && (place == 0 || b < place&-place); b <<= 1 {
			below = append(below, place+b)
		}
	}
	return below
}

// under returns how many places are in the tree that begins with one, itself included: they follow each other.
func (c *forest) under(place int) int {
	switch {
	case c.flat:
		return 1
	case place == 0:
		return c.places()
	}
	return min(1<<bits.TrailingZeros(uint(place)), c.places()-place)
}

// blocks are the inputs of the groups in the tree that begins with a place, combined as
// far as they can be, in slots from next on.
func (c *forest) blocks(place int, next int32) (all []partial) {
	for k := range c.under(place) {
		for _, r := range c.group(place + k) {
			all = join(all, partial{int32(r), 1, 0}, c.p, func(_, _ *partial) {})
		}
	}
	for i := range all {
		all[i].version = next + int32(i)
	}
	return all
}

// program is what one task does.
func (c *forest) program(self Rank, all bool) Program {
	place, tree := c.at(self)
	w := writer{forest: c, self: self, place: place, tree: tree}
	w.g = Program{In: []int32{0}, Slots: 1}
	w.exchange()
	w.reduce()
	switch {
	case self == c.root:
		w.g.Out = []int32{w.have[0].version}
		w.add(Step{Kind: UnreachedStep, Void: true})
		if all {
			w.spread(w.g.Out[0])
		}
		w.add(Step{Kind: DeliverStep, Whole: true})
	case all:
		result := w.slots(1)
		w.g.Out = result
		w.add(Step{Kind: RecvStep, Peer: w.above(), Lane: LaneResult, Slots: result, Any: true})
		w.spread(result[0])
		w.correct(result[0])
		w.add(Step{Kind: DeliverStep})
	default:
		w.add(Step{Kind: DeliverStep})
	}
	return w.g.finished()
}

// writer writes a task's program.
type writer struct {
	*forest
	self        Rank
	place, tree int
	g           Program
	have        []partial // what the task has combined; version: the slot
}

func (w *writer) add(st Step) { w.g.Steps = append(w.g.Steps, st) }

// slots are n new ones.
func (w *writer) slots(n int) []int32 {
	w.g.Slots += n
	return span(int32(w.g.Slots-n), int32(n))
}

// above is the task's parent.
func (w *writer) above() Rank {
	if w.place < 0 || w.parent(w.place) < 0 {
		return w.root
	}
	return w.task(w.parent(w.place), w.tree)
}

// exchange gives the task the inputs of its group.
func (w *writer) exchange() {
	group := w.group(w.place)
	for _, r := range group {
		if r != w.self {
			w.add(Step{Kind: SendStep, Peer: r, Lane: laneInput, Slots: []int32{0}})
		}
	}
	inputs := []partial{}
	for _, r := range group {
		b := partial{int32(r), 1, 0}
		if r != w.self {
			st := Step{Kind: RecvStep, Peer: r, Lane: laneInput, Slots: w.slots(1), May: true}
			w.add(st)
			b.version = st.Slots[0]
		}
		inputs = append(inputs, b)
	}
	if w.place < 0 && w.self != w.root {
		return // only the root needs them
	}
	for _, b := range inputs {
		w.join(b, false)
	}
}

// join adds a block to what the task has.
func (w *writer) join(b partial, whole bool) {
	w.have = join(w.have, b, w.p, func(left, right *partial) {
		st := Step{Kind: FoldStep, Slots: []int32{left.version}, With: []int32{right.version}, Whole: whole}
		if left.version == 0 { // the task's input stays where it is
			left.version = right.version
			st.Slots, st.With, st.Before = st.With, st.Slots, true
		}
		w.add(st)
	})
}

// reduce adds what the trees below have, and sends it on.
func (w *writer) reduce() {
	if w.place < 0 && w.self != w.root {
		return
	}
	for _, k := range w.children(w.place) {
		came := w.blocks(k, int32(w.g.Slots))
		slots := w.slots(len(came))
		switch {
		case w.place >= 0:
			w.child(w.task(k, w.tree), slots, false)
		case w.flat:
			w.anyOf(k, slots)
		default:
			for j := range w.size {
				w.child(w.task(k, j), slots, j+1 < w.size)
			}
		}
		for _, b := range came {
			w.join(b, true)
		}
	}
	if w.self == w.root {
		return
	}
	slots := []int32{}
	for _, b := range w.have {
		slots = append(slots, b.version)
	}
	w.add(Step{Kind: SendStep, Peer: w.above(), Lane: laneTree, Slots: slots, Whole: true})
	if len(w.children(w.place)) > 0 {
		w.add(Step{Kind: SendStep, Peer: w.above(), Lane: laneVoid, Void: true})
	}
}

// anyOf receives the inputs of a group from any of its tasks, or nothing if all are dead.
func (w *writer) anyOf(place int, slots []int32) {
	for j := range w.size {
		w.add(Step{Kind: RecvStep, Peer: w.task(place, j), Lane: laneTree, Slots: slots, May: true, Or: j+1 < w.size})
	}
}

// child receives what a child has, or that it will not have it. more says that the next child's is as good.
func (w *writer) child(from Rank, slots []int32, more bool) {
	w.add(Step{Kind: RecvStep, Peer: from, Lane: laneTree, Slots: slots, Whole: true, Or: true})
	w.add(Step{Kind: RecvStep, Peer: from, Lane: laneVoid, Whole: true, Void: true, Or: more})
}

// spread sends the result down the trees, to those with many below first.
func (w *writer) spread(slot int32) {
	st := Step{Kind: SendStep, Lane: LaneResult, Slots: []int32{slot}, Whole: w.self == w.root}
	below := w.children(w.place)
	slices.Reverse(below)
	switch {
	case w.self == w.root:
		for _, k := range below {
			for j := range w.size {
				st.Peer = w.task(k, j)
				w.add(st)
			}
		}
		for _, r := range w.group(-1) {
			if st.Peer = r; r != w.root {
				w.add(st)
			}
		}
	case w.place >= 0:
		for _, k := range below {
			st.Peer = w.task(k, w.tree)
			w.add(st)
		}
	}
}

// correct sends the result to the others of the task's group. The root's group has it from the root.
func (w *writer) correct(slot int32) {
	if w.place < 0 {
		return
	}
	for _, r := range w.group(w.place) {
		if r != w.self {
			w.add(Step{Kind: SendStep, Peer: r, Lane: LaneResult, Slots: []int32{slot}, Fix: true})
		}
	}
}
