package logp

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// plan is what all shortcut runs of one broadcast share.
type plan struct {
	checked *broadcast.Checked
	net     Network
	start   protocol.Time

	// The tree, in ranks of the group.
	parent   []int32
	preorder []int32         // ranks, each followed by those below it
	place    []int32         // of each rank in preorder
	below    []int32         // size of each rank's subtree
	at       []protocol.Time // when dissemination reaches each rank
	served   protocol.Time   // the last of these

	m       int   // slots from a send to the decision that knows of it
	uniform []hop // what every corrector sends in the slots 0 … m−1
	slots   []slotPlan
	rest    []broadcast.Walk // of the classes after slot 2m−1
}

// slotPlan is what correctors do in one of the slots m … 2m−1, by class.
type slotPlan struct {
	routes [][2]route // by class; the second is for correctors that hear
	hops   []hop      // all that are sent
	after  int        // number of classes after it
}

// route is what a class does in a slot.
type route struct {
	hop  int // number of the hop it sends; −1: it is done
	next int // its class in the next slot
}

// hop is a correction message that many processes send at once.
type hop struct {
	offset int // from sender to receiver
	msg    plainMessage
}

type plainMessage = broadcast.Message[broadcast.None]

// Bounds of the shortcut: hops of the first 2m slots stay within a word, and
// there are not too many classes.
const (
	slotsMax   = 16
	classesMax = 128
)

// newPlan returns the shortcut for a protocol, or nil if there is none.
func newPlan(p any, net Network, faults Sampling) *plan {
	b, ok := p.(*broadcast.Plain)
	if !ok || !b.Synchronized || net.G > net.O || net.NoQueue || net.routed() || net.Until > 0 || net.Detect > 0 || len(faults.Fixed.Deaths) > 0 || faults.Spare != b.Root {
		return nil
	}
	checked, ok := b.Correction().(*broadcast.Checked)
	if !ok || checked.Open {
		return nil
	}
	spread, ok := b.Spread.(*broadcast.Tree)
	if !ok {
		return nil
	}
	m := 2 + int((net.L+net.O-1)/net.O)
	if m > slotsMax || net.P < 128 {
		return nil
	}
	q := &plan{checked: checked, net: net, start: b.Start, m: m}
	q.layOut(spread.Tree, b.ToGroup)
	if q.served > b.Start || !q.rehearse() {
		return nil
	}
	return q
}

// layOut records the tree.
func (q *plan) layOut(tree topology.Tree, toGroup func(protocol.Rank) protocol.Rank) {
	p := q.net.P
	q.parent, q.place, q.below = make([]int32, p), make([]int32, p), make([]int32, p)
	q.preorder, q.at = make([]int32, 0, p), make([]protocol.Time, p)
	type visit struct{ rank, next int } // next is the next child to visit
	var path []visit
	enter := func(r int, parent int32, at protocol.Time) {
		g := toGroup(protocol.Rank(r))
		q.parent[g], q.place[g], q.at[g] = parent, int32(len(q.preorder)), at
		q.preorder = append(q.preorder, int32(g))
		path = append(path, visit{rank: r})
	}
	for enter(0, -1, 0); len(path) > 0; {
		v := &path[len(path)-1]
		g := toGroup(protocol.Rank(v.rank))
		child := tree.Child(v.rank, v.next)
		if child < 0 {
			q.below[g] = int32(len(q.preorder)) - q.place[g]
			path = path[:len(path)-1]
			continue
		}
		v.next++
		enter(child, int32(g), q.at[g]+protocol.Time(v.next-1)*q.net.O+2*q.net.O+q.net.L)
	}
	q.served = slices.Max(q.at)
}

// rehearse lets one corrector play the first 2m slots, for everything it may hear. It returns false if there
// are too many classes.
func (q *plan) rehearse() bool {
	self := protocol.Rank(q.net.P / 2)
	var w broadcast.Walk
	q.checked.Init(&w, self)
	for range q.m {
		a := q.checked.Next(&w, self, 0, false)
		q.uniform = append(q.uniform, hop{offset: int(a.To - self), msg: a.Msg})
	}
	classes := []broadcast.Walk{w}
	for _, heard := range q.uniform {
		slot := slotPlan{routes: make([][2]route, len(classes))}
		var next []broadcast.Walk
		for c, w := range classes {
			slot.routes[c][0] = q.act(&slot, w, self, &next)
			q.checked.Receive(&w, self, 0, self-protocol.Rank(heard.offset), heard.msg)
			slot.routes[c][1] = q.act(&slot, w, self, &next)
		}
		slot.after = len(next)
		q.slots = append(q.slots, slot)
		classes = next
		if len(classes) > classesMax {
			return false
		}
	}
	q.rest = classes
	return true
}

// act returns what a corrector with the walk w does in a slot; it adds the corrector's class to next.
func (q *plan) act(slot *slotPlan, w broadcast.Walk, self protocol.Rank, next *[]broadcast.Walk) route {
	a := q.checked.Next(&w, self, 0, false)
	if a.Kind == protocol.Done {
		return route{hop: -1}
	}
	return route{
		hop:  number(&slot.hops, hop{offset: int(a.To - self), msg: a.Msg}),
		next: number(next, w),
	}
}

// number returns the index of v in a list, after adding it if it is new.
func number[T comparable](list *[]T, v T) int {
	i := slices.Index(*list, v)
	if i < 0 {
		i = len(*list)
		*list = append(*list, v)
	}
	return i
}
