package chaos

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// A stretch is what one process does up to its next Send; see exhaustive.go.

// point is a point that a stretch may have reached.
type point[S, M any] struct {
	p      *private[S, M]
	inbox  []queue[M]
	corpse *private[S, M] // what a crash here leaves
	unread uint64         // at a rest: the senders of unread messages, a bit each
	parent *point[S, M]   // nil: nothing done yet
	by     move           // the move that led from parent here
	r      int
	depth  int           // moves from the start of the stretch
	to     protocol.Rank // after a Send: its receiver
	item   item[M]       // after a Send: its message
}

// move is an event, and which message of the channel it takes.
type move struct {
	event event
	k     int
}

// stretches are all stretches of a process from one view of the world.
type stretches[S, M any] struct {
	points  []*point[S, M] // everything before a Send
	sends   []*point[S, M] // right after the Send
	rests   []*point[S, M] // nothing is left to do, or only to spin; with LossyCrashes: or only to receive
	crashes []*point[S, M] // those that leave different corpses
	ends    fingerprint    // of the ways in which settle lets the process end
}

// tour computes stretches.
type tour[S, M any] struct {
	*stretches[S, M]
	x       *explorer[S, M]
	g       *node[S, M]
	seen    map[fingerprint]bool
	corpses map[fingerprint]bool
	sent    map[fingerprint]bool
	todo    []*point[S, M]
}

// stretches returns all stretches of r from g.
func (x *explorer[S, M]) stretches(g *node[S, M], r int) *stretches[S, M] {
	p := g.procs[r]
	if p.life != alive || x.err != nil {
		return &stretches[S, M]{}
	}
	key := p.print.with(uint64(r)).with(uint64(g.now))
	if x.cfg.Detect {
		key = key.with(g.dead)
	}
	for from := range g.inboxes[r] {
		key = key.and(g.inboxes[r][from].print)
	}
	if known, ok := x.views[key]; ok {
		return known
	}
	t := tour[S, M]{
		stretches: &stretches[S, M]{}, x: x, g: g,
		seen: map[fingerprint]bool{}, corpses: map[fingerprint]bool{}, sent: map[fingerprint]bool{},
	}
	t.come(&point[S, M]{p: p, inbox: g.inboxes[r], r: r})
	for len(t.todo) > 0 && x.err == nil {
		last := len(t.todo) - 1
		at := t.todo[last]
		t.todo = t.todo[:last]
		t.leave(at)
	}
	t.ends = t.endings()
	x.views[key] = t.stretches
	return t.stretches
}

// print is the fingerprint of a point of r.
func (at *point[S, M]) print() fingerprint {
	f := at.p.print
	for from := range at.inbox {
		f = f.and(at.inbox[from].print)
	}
	return f
}

// endings returns the fingerprint of what settle may choose from for the process.
func (t *tour[S, M]) endings() fingerprint {
	ends := t.x.stops(t.stretches)
	prints := make([]fingerprint, 0, len(ends)+len(t.crashes))
	for _, at := range ends {
		prints = append(prints, at.print())
	}
	for _, at := range t.crashes {
		prints = append(prints, at.corpse.print)
	}
	slices.SortFunc(prints, fingerprint.compare) // two views may list them differently
	f := fingerprint{uint64(len(ends)), uint64(len(t.crashes))}
	for _, one := range prints {
		f = f.and(one)
	}
	return f
}

// come adds a point, unless it is known.
func (t *tour[S, M]) come(at *point[S, M]) {
	at.inbox = t.x.sift(at.p, at.inbox, t.g.now)
	f := at.print()
	if t.seen[f] {
		return
	}
	t.seen[f] = true
	t.points = append(t.points, at)
	t.todo = append(t.todo, at)
	if at.p.rest != Done {
		if at.corpse = at.p.corpse(); !t.corpses[at.corpse.print] {
			t.corpses[at.corpse.print] = true
			t.crashes = append(t.crashes, at)
		}
	}
	switch {
	case at.depth > t.x.cfg.stepsMax():
		t.broken(at, fmt.Errorf("%w: p%d does not rest within %d steps", ErrLivelock, at.r, at.depth))
	case len(t.points) > t.x.cfg.statesMax():
		t.x.err = t.x.tooMany()
	}
}

// leave tries every move from a point.
func (t *tour[S, M]) leave(at *point[S, M]) {
	moves := t.x.moves(at.p, at.inbox, at.r, t.g.dead)
	others := 0
	for _, m := range moves {
		if m.event.kind() == receive {
			at.unread |= 1 << m.event.from()
		} else {
			others++
		}
	}
	silent := at.unread == 0 || t.x.cfg.LossyCrashes
	if others == 0 && silent {
		t.rests = append(t.rests, at)
	}
	for _, m := range moves {
		if t.x.err != nil {
			return
		}
		if m.event.kind() == next {
			to := t.next(at, m)
			if to != nil && to.p.print == at.p.print && others == 1 && silent {
				t.rests = append(t.rests, at) // it waits for a moment that is past
			}
		} else {
			t.arrive(at, m)
		}
	}
}

// moves lists what can happen at r, except its crash and the passing of time.
func (x *explorer[S, M]) moves(p *private[S, M], inbox []queue[M], r int, dead uint64) []move {
	var moves []move
	switch p.rest {
	case Done:
		return nil
	case Unstarted:
		return []move{{event: happening(next, r, 0)}}
	case Runnable:
		moves = append(moves, move{event: happening(next, r, 0)})
	}
	for from := range inbox {
		n := len(inbox[from].items)
		if !x.cfg.Reorder {
			n = min(n, 1)
		}
		for k := range n {
			moves = append(moves, move{happening(receive, r, from), k})
		}
	}
	if int(x.w.setup.nextInput(p.input, r)) < len(x.w.setup.Inputs) {
		moves = append(moves, move{event: happening(input, r, 0)})
	}
	if p.works > 0 {
		moves = append(moves, move{event: happening(workDone, r, 0)})
	}
	if x.cfg.Detect {
		for from := range x.cfg.P {
			if (dead&^p.told)>>from&1 == 1 {
				moves = append(moves, move{event: happening(death, r, from)})
			}
		}
	}
	return moves
}

// quiet reports whether nothing can happen at r.
func (x *explorer[S, M]) quiet(g *node[S, M], r int) bool {
	return len(x.moves(g.procs[r], g.inboxes[r], r, g.dead)) == 0
}

// spins reports whether r, which may act, stays as it is when it does: it waits for a moment that is past.
func (x *explorer[S, M]) spins(g *node[S, M], r int) bool {
	p := *g.procs[r]
	if len(x.moves(&p, g.inboxes[r], r, g.dead)) != 1 || p.rest != Runnable {
		return false
	}
	p.state = clone(&p.state)
	a := x.w.setup.Protocol.Next(&p.state, g.now)
	return a.Kind == protocol.Wait && a.At <= g.now && p.signed().print == g.procs[r].print
}

// step returns a new point, one move after at.
func (t *tour[S, M]) step(at *point[S, M], m move) *point[S, M] {
	p := *at.p
	p.state = clone(&p.state)
	to := &point[S, M]{p: &p, inbox: at.inbox, parent: at, by: m, r: at.r, depth: at.depth + 1}
	t.x.current = to
	return to
}

// arrive hands a message or a notice to the process.
func (t *tour[S, M]) arrive(at *point[S, M], m move) {
	to := t.step(at, m)
	p, from, running := to.p, m.event.from(), t.x.w.setup.Protocol
	switch m.event.kind() {
	case receive:
		msg := at.inbox[from].items[m.k].msg
		to.inbox = slices.Clone(at.inbox)
		to.inbox[from] = at.inbox[from].without(m.k)
		running.Receive(&p.state, t.g.now, protocol.Rank(from), msg)
	case input:
		i := t.x.w.setup.nextInput(p.input, at.r)
		p.input = i + 1
		running.Notify(&p.state, t.g.now, t.x.w.setup.Inputs[i].Notice)
	case workDone:
		p.works--
		p.worked++
		running.Notify(&p.state, t.g.now, protocol.Notice{Kind: protocol.WorkDone})
	case death:
		p.told |= 1 << from
		running.Notify(&p.state, t.g.now, protocol.Notice{Kind: protocol.Death, Rank: protocol.Rank(from), Value: 1})
	}
	t.x.current = nil
	p.reached, p.rest, p.until = true, Runnable, 0
	p.signed()
	t.come(to)
}

// next calls Next and returns the point it leads to, or nil after a Send or a broken contract.
func (t *tour[S, M]) next(at *point[S, M], m move) *point[S, M] {
	to := t.step(at, m)
	p := to.p
	a := t.x.w.setup.Protocol.Next(&p.state, t.g.now)
	if p.rest == Unstarted && a.Kind != protocol.Idle && a.Kind != protocol.Wait {
		p.reached = true
	}
	p.rest = Runnable
	switch a.Kind {
	case protocol.Send, protocol.Correct:
		t.send(to, a)
		return nil
	case protocol.Deliver:
		n := len(p.delivered)
		p.delivered = append(p.delivered[:n:n], Delivery[M]{Msg: a.Msg, At: t.g.now, Life: 1})
	case protocol.Work:
		p.works++
	case protocol.Idle:
		p.rest = Idle
	case protocol.Wait:
		p.rest, p.until = resting(a.At, t.g.now)
	case protocol.Done:
		p.rest = Done
		to.inbox = make([]queue[M], len(at.inbox))
	default:
		t.broken(to, fmt.Errorf("%w: p%d answers Next with kind %d", ErrContract, at.r, uint8(a.Kind)))
		return nil
	}
	p.signed()
	if t.x.cfg.ExtraNext {
		if err := t.x.askAgain(p, at.r, t.g.now); err != nil {
			t.broken(to, err)
			return nil
		}
	}
	t.x.current = nil
	t.come(to)
	return to
}

// send closes a stretch.
func (t *tour[S, M]) send(to *point[S, M], a protocol.Action[M]) {
	if a.To < 0 || int(a.To) >= t.x.cfg.P {
		t.broken(to, fmt.Errorf("%w: p%d sends to rank %d", ErrContract, to.r, a.To))
		return
	}
	t.x.current = nil
	to.p.sent = true
	to.p.signed()
	to.inbox = t.x.sift(to.p, to.inbox, t.g.now)
	to.to, to.item = a.To, item[M]{a.Msg, printOf(&a.Msg)}
	f := to.print().with(uint64(a.To)).and(to.item.print)
	if !t.sent[f] {
		t.sent[f] = true
		t.sends = append(t.sends, to)
	}
}

// broken ends the exploration with a violation in the middle of a stretch.
func (t *tour[S, M]) broken(at *point[S, M], err error) {
	t.x.current = nil
	t.x.push(leg[S, M]{at, byNothing})
	t.x.violated(err)
}

// askAgain checks a machine's duty 1 on a process that rests.
func (x *explorer[S, M]) askAgain(p *private[S, M], r int, now protocol.Time) error {
	if p.rest != Idle && p.rest != Waiting {
		return nil
	}
	again := *p
	again.state = clone(&p.state)
	a := x.w.setup.Protocol.Next(&again.state, now)
	if err := sameRest(r, p.rest, p.until, a, now); err != nil {
		return err
	}
	if again.signed().print != p.print {
		return fmt.Errorf("%w: an extra Next changed the state of p%d", ErrContract, r)
	}
	return nil
}

// askAllAgain checks duty 1 on all processes that rest, after time has passed.
func (x *explorer[S, M]) askAllAgain(g *node[S, M]) {
	for r, p := range g.procs {
		if err := x.askAgain(p, r, g.now); err != nil {
			x.violated(err)
			return
		}
	}
}
