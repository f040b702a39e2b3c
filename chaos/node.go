package chaos

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// States of the world as Exhaustive keeps them: made of immutable parts, which are therefore shared.

// node is a state of the whole world. What it points to never changes.
type node[S, M any] struct {
	procs   []*private[S, M]
	inboxes [][]queue[M] // [to][from]
	now     protocol.Time
	dead    uint64 // bit per rank
	crashes int
}

// private is the part of the state that belongs to one process.
type private[S, M any] struct {
	state     S
	until     protocol.Time
	delivered []Delivery[M]
	input     int32
	works     int32 // begun and not done
	worked    int32 // done
	told      uint64
	rest      Rest
	life      life
	reached   bool
	sent      bool        // anything, ever
	visible   fingerprint // of what a Check may look at
	print     fingerprint // of all the above
}

// queue is the content of a channel.
type queue[M any] struct {
	items []item[M]
	print fingerprint
}

type item[M any] struct {
	msg   M
	print fingerprint
}

// start is the first state of the run that was set up.
func (x *explorer[S, M]) start() *node[S, M] {
	s, p := &x.w.setup, x.cfg.P
	g := &node[S, M]{procs: make([]*private[S, M], p), inboxes: make([][]queue[M], p)}
	for r := range p {
		one := &private[S, M]{}
		if s.failed[r] {
			one.life, one.rest = failed, Done
			g.dead |= 1 << r
		} else {
			s.Protocol.Init(&one.state, protocol.Rank(r), s.Seed)
		}
		g.procs[r] = one.signed()
		g.inboxes[r] = make([]queue[M], p)
	}
	return g
}

// print returns the state's fingerprint, which covers everything that decides what can come, and everything a
// Check may look at.
func (g *node[S, M]) print() fingerprint {
	f := fingerprint{uint64(g.now), uint64(g.crashes)}
	for r, p := range g.procs {
		f = f.and(p.print)
		for from := range g.inboxes[r] {
			if q := &g.inboxes[r][from]; len(q.items) > 0 {
				f = f.with(uint64(from)).and(q.print)
			}
		}
		f = f.with(uint64(r))
	}
	return f
}

// visible returns the fingerprint of what a Check may look at.
func (g *node[S, M]) visible() fingerprint {
	f := fingerprint{uint64(g.now), uint64(g.crashes)}
	for _, p := range g.procs {
		f = f.and(p.visible)
	}
	return f
}

// replacing returns g with another process r.
func (g *node[S, M]) replacing(r int, p *private[S, M], inbox []queue[M]) *node[S, M] {
	to := *g
	to.procs = slices.Clone(g.procs)
	to.inboxes = slices.Clone(g.inboxes)
	to.procs[r], to.inboxes[r] = p, inbox
	return &to
}

// sent returns what follows g when a process makes the stretch that ends with a Send.
func (x *explorer[S, M]) sent(g *node[S, M], end *point[S, M]) *node[S, M] {
	to := g.replacing(end.r, end.p, end.inbox)
	p, inbox := to.procs[end.to], to.inboxes[end.to]
	if p.rest == Done {
		return to
	}
	key := p.print.with(uint64(end.r)).with(uint64(g.now)).and(end.item.print)
	for from := range inbox {
		key = key.and(inbox[from].print)
	}
	after, ok := x.arrivals[key]
	if !ok {
		after = slices.Clone(inbox)
		after[end.r] = queueOf(append(slices.Clip(after[end.r].items), end.item))
		after = x.sift(p, after, g.now)
		x.arrivals[key] = after
	}
	to.inboxes[end.to] = after
	return to
}

// bury makes a process crashed, in a node that is not shared yet.
func (g *node[S, M]) bury(end *point[S, M]) {
	g.procs[end.r], g.inboxes[end.r] = end.corpse, make([]queue[M], len(g.procs))
	g.dead |= 1 << end.r
	g.crashes++
}

// at returns g at a later time.
func (x *explorer[S, M]) at(g *node[S, M], now protocol.Time) *node[S, M] {
	to := *g
	to.now = now
	to.procs, to.inboxes = slices.Clone(g.procs), slices.Clone(g.inboxes)
	for r, p := range to.procs {
		if p.rest == Waiting && p.until <= now {
			due := *p
			due.rest, due.until = Runnable, 0
			to.procs[r] = due.signed()
		}
		to.inboxes[r] = x.sift(to.procs[r], to.inboxes[r], now)
	}
	return &to
}

// signed computes the fingerprints of a process that is complete.
func (p *private[S, M]) signed() *private[S, M] {
	flags := uint64(0)
	if p.reached {
		flags = 1
	}
	if p.sent {
		flags |= 2
	}
	var f fingerprint
	if p.life == alive { // a dead process has no state
		f = printOf(&p.state)
	}
	f = f.with(uint64(p.rest)<<16 | uint64(p.life)<<8 | flags)
	for i := range p.delivered {
		f = f.with(uint64(p.delivered[i].At)).and(printOf(&p.delivered[i].Msg))
	}
	p.visible = f.with(uint64(len(p.delivered)))
	f = p.visible.with(uint64(p.until)).with(p.told)
	p.print = f.with(uint64(p.input)).with(uint64(p.works)<<32 | uint64(p.worked))
	return p
}

// corpse returns what a crash leaves of a process: what it did.
func (p *private[S, M]) corpse() *private[S, M] {
	dead := &private[S, M]{
		delivered: p.delivered, sent: p.sent, reached: p.reached,
		life: crashed, rest: Done,
	}
	return dead.signed()
}

// without returns the queue without its k-th item.
func (q queue[M]) without(k int) queue[M] {
	if k == 0 {
		return queueOf(q.items[1:])
	}
	return queueOf(slices.Delete(slices.Clone(q.items), k, k+1))
}

func queueOf[M any](items []item[M]) queue[M] {
	if len(items) == 0 {
		return queue[M]{}
	}
	var f fingerprint
	for i := range items {
		f = f.and(items[i].print)
	}
	return queue[M]{items, f.with(uint64(len(items)))}
}

// show makes the world look like g.
func (w *World[S, M]) show(g *node[S, M], running protocol.Protocol[S, M]) {
	w.now, w.crashes, w.protocol = g.now, g.crashes, running
	for r, p := range g.procs {
		w.procs[r] = proc[S, M]{p.state, course[M]{
			until: p.until, delivered: p.delivered, rest: p.rest, life: p.life, reached: p.reached,
		}}
		if p.sent {
			w.procs[r].sends = 1 // or more
		}
	}
}
