package chaos

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// The naive version of the world, written from the package's manual and sharing nothing with the optimized
// ones: every interleaving of every transition, one transition at a time, on copies of everything. Only
// states that are equal in every respect are not explored twice.

type naiveProc[S, M any] struct {
	State     S
	Until     protocol.Time
	Delivered []Delivery[M]
	Sends     int
	Inputs    []protocol.Notice
	Works     int
	Untold    []int // deaths
	Rest      Rest
	Life      life
	Reached   bool
}

type naiveWorld[S, M any] struct {
	Procs    []naiveProc[S, M]
	Channels [][]M
	Now      protocol.Time
	Crashes  int
}

type naive[S, M any] struct {
	cfg  Config[S, M]
	seen map[string]bool
	ends map[string]bool
	most int // largest number of states

	numbers map[any]uint32 // of states, messages and notices, for key
	buf     []byte
}

// naiveEnds returns all ends of cfg's runs, and false if there are too many states.
func naiveEnds[S, M any](cfg Config[S, M], most int) (map[string]bool, int, bool) {
	n := naive[S, M]{cfg: cfg, seen: map[string]bool{}, ends: map[string]bool{}, most: most, numbers: map[any]uint32{}}
	w := naiveWorld[S, M]{Procs: make([]naiveProc[S, M], cfg.P), Channels: make([][]M, cfg.P*cfg.P)}
	for r := range w.Procs {
		p := &w.Procs[r]
		if slices.Contains(cfg.Failed, protocol.Rank(r)) {
			p.Life, p.Rest = failed, Done
			continue
		}
		cfg.Protocol.Init(&p.State, protocol.Rank(r), 0)
		for _, in := range cfg.Inputs {
			if int(in.Rank) == r {
				p.Inputs = append(p.Inputs, in.Notice)
			}
		}
		if cfg.Detect {
			for _, f := range cfg.Failed {
				p.Untold = append(p.Untold, int(f))
			}
		}
	}
	n.explore(w)
	return n.ends, len(n.seen), len(n.seen) < most
}

func (w naiveWorld[S, M]) copy() naiveWorld[S, M] {
	w.Procs = slices.Clone(w.Procs)
	for r := range w.Procs {
		p := &w.Procs[r]
		p.Delivered = slices.Clone(p.Delivered)
		p.Inputs = slices.Clone(p.Inputs)
		p.Untold = slices.Clone(p.Untold)
	}
	w.Channels = slices.Clone(w.Channels)
	for i := range w.Channels {
		w.Channels[i] = slices.Clone(w.Channels[i])
	}
	return w
}

func (n *naive[S, M]) explore(w naiveWorld[S, M]) {
	key := n.key(w)
	if n.seen[key] || len(n.seen) >= n.most {
		return
	}
	n.seen[key] = true
	busy, waiting := false, false
	for r := range w.Procs {
		p := &w.Procs[r]
		if p.Rest == Done {
			continue
		}
		if p.Rest == Waiting {
			waiting = true
		}
		for _, then := range n.transitions(w, r) {
			busy = true
			n.explore(then)
		}
		if w.Crashes < n.cfg.Crashes && (n.cfg.MayCrash == nil || n.cfg.MayCrash(protocol.Rank(r))) {
			for _, then := range n.losses(n.crash(w.copy(), r), r) {
				n.explore(then)
			}
		}
	}
	switch {
	case waiting && (!busy || n.cfg.EagerTimers):
		n.explore(n.passTime(w.copy()))
	case !busy:
		n.ends[naiveEnd(w)] = true
	}
}

// key holds every field of w.
func (n *naive[S, M]) key(w naiveWorld[S, M]) string {
	b := n.buf[:0]
	add := func(x uint64) { b = binary.AppendUvarint(b, x) }
	value := func(v any) {
		id, ok := n.numbers[v]
		if !ok {
			id = uint32(len(n.numbers))
			n.numbers[v] = id
		}
		add(uint64(id))
	}
	add(uint64(w.Now))
	add(uint64(w.Crashes))
	for _, p := range w.Procs {
		value(p.State)
		value(p.Reached)
		for _, x := range []int{int(p.Until), p.Sends, p.Works, int(p.Rest), int(p.Life), len(p.Delivered), len(p.Inputs), len(p.Untold)} {
			add(uint64(x))
		}
		for _, d := range p.Delivered {
			value(d)
		}
		for _, in := range p.Inputs {
			value(in)
		}
		for _, dead := range p.Untold {
			add(uint64(dead))
		}
	}
	for _, ch := range w.Channels {
		add(uint64(len(ch)))
		for _, m := range ch {
			value(m)
		}
	}
	n.buf = b
	return string(b)
}

// transitions returns the transitions at r, except its crash.
func (n *naive[S, M]) transitions(w naiveWorld[S, M], r int) (all []naiveWorld[S, M]) {
	p := w.Procs[r]
	proto := n.cfg.Protocol
	if p.Rest == Unstarted || p.Rest == Runnable {
		all = append(all, n.next(w.copy(), r))
	}
	if p.Rest == Unstarted {
		return all
	}
	arrival := func(hand func(v *naiveWorld[S, M], p *naiveProc[S, M])) {
		v := w.copy()
		q := &v.Procs[r]
		hand(&v, q)
		q.Rest, q.Until, q.Reached = Runnable, 0, true
		all = append(all, v)
	}
	for from := range w.Procs {
		at := from*n.cfg.P + r
		for k, m := range w.Channels[at] {
			if k > 0 && !n.cfg.Reorder {
				break
			}
			arrival(func(v *naiveWorld[S, M], q *naiveProc[S, M]) {
				v.Channels[at] = slices.Delete(v.Channels[at], k, k+1)
				proto.Receive(&q.State, w.Now, protocol.Rank(from), m)
			})
		}
	}
	if len(p.Inputs) > 0 {
		arrival(func(_ *naiveWorld[S, M], q *naiveProc[S, M]) {
			proto.Notify(&q.State, w.Now, q.Inputs[0])
			q.Inputs = q.Inputs[1:]
		})
	}
	if p.Works > 0 {
		arrival(func(_ *naiveWorld[S, M], q *naiveProc[S, M]) {
			q.Works--
			proto.Notify(&q.State, w.Now, protocol.Notice{Kind: protocol.WorkDone})
		})
	}
	for k, dead := range p.Untold {
		arrival(func(_ *naiveWorld[S, M], q *naiveProc[S, M]) {
			q.Untold = slices.Delete(q.Untold, k, k+1)
			proto.Notify(&q.State, w.Now, protocol.Notice{Kind: protocol.Death, Rank: protocol.Rank(dead), Value: 1})
		})
	}
	return all
}

func (n *naive[S, M]) next(w naiveWorld[S, M], r int) naiveWorld[S, M] {
	p := &w.Procs[r]
	a := n.cfg.Protocol.Next(&p.State, w.Now)
	if p.Rest == Unstarted && a.Kind != protocol.Idle && a.Kind != protocol.Wait {
		p.Reached = true
	}
	p.Rest = Runnable
	switch a.Kind {
	case protocol.Idle:
		p.Rest = Idle
	case protocol.Wait:
		if a.At > w.Now {
			p.Rest, p.Until = Waiting, a.At
		}
	case protocol.Deliver:
		p.Delivered = append(p.Delivered, Delivery[M]{a.Msg, w.Now, 1})
	case protocol.Work:
		p.Works++
	case protocol.Done:
		n.leave(&w, r)
	case protocol.Send:
		p.Sends++
		if w.Procs[a.To].Rest != Done {
			at := r*n.cfg.P + int(a.To)
			w.Channels[at] = append(w.Channels[at], a.Msg)
		}
	}
	return w
}

func (n *naive[S, M]) leave(w *naiveWorld[S, M], r int) {
	p := &w.Procs[r]
	p.Rest, p.Until, p.Inputs, p.Works, p.Untold = Done, 0, nil, 0, nil
	for from := range w.Procs {
		w.Channels[from*n.cfg.P+r] = nil
	}
}

func (n *naive[S, M]) crash(w naiveWorld[S, M], r int) naiveWorld[S, M] {
	n.leave(&w, r)
	var zero S
	w.Procs[r].State, w.Procs[r].Life = zero, crashed
	w.Crashes++
	if n.cfg.Detect {
		for to := range w.Procs {
			if w.Procs[to].Rest != Done {
				w.Procs[to].Untold = append(w.Procs[to].Untold, r)
			}
		}
	}
	return w
}

// losses returns the worlds that a crash of r may leave: with LossyCrashes, each channel from it may have
// lost any number of its last messages.
func (n *naive[S, M]) losses(w naiveWorld[S, M], r int) []naiveWorld[S, M] {
	all := []naiveWorld[S, M]{w}
	if !n.cfg.LossyCrashes {
		return all
	}
	for to := range w.Procs {
		at := r*n.cfg.P + to
		for _, v := range all {
			for kept := range v.Channels[at] {
				less := v.copy()
				less.Channels[at] = less.Channels[at][:kept]
				all = append(all, less)
			}
		}
	}
	return all
}

func (n *naive[S, M]) passTime(w naiveWorld[S, M]) naiveWorld[S, M] {
	w.Now = protocol.Never
	for r := range w.Procs {
		if w.Procs[r].Rest == Waiting {
			w.Now = min(w.Now, w.Procs[r].Until)
		}
	}
	for r := range w.Procs {
		if p := &w.Procs[r]; p.Rest == Waiting && p.Until == w.Now {
			p.Rest, p.Until = Runnable, 0
		}
	}
	return w
}

// naiveEnd is all that a Check could see.
func naiveEnd[S, M any](w naiveWorld[S, M]) string {
	s := fmt.Sprintf("now %d crashes %d", w.Now, w.Crashes)
	for r := range w.Procs {
		p := &w.Procs[r]
		s += fmt.Sprintf("; p%d %d %d %t %v %t %v", r, p.Life, p.Rest, p.Reached, p.Delivered, p.Sends > 0, p.State)
	}
	return s
}

// endOf is naiveEnd for a World.
func endOf[S, M any](w *World[S, M]) string {
	s := fmt.Sprintf("now %d crashes %d", w.Now(), w.Crashes())
	for r := range protocol.Rank(w.P()) {
		state := new(S)
		if w.Alive(r) {
			state = w.State(r)
		}
		life := alive
		switch {
		case w.Failed(r):
			life = failed
		case w.Crashed(r):
			life = crashed
		}
		s += fmt.Sprintf("; p%d %d %d %t %v %t %v",
			r, life, w.Rest(r), w.Reached(r), w.Delivered(r), w.Sent(r), *state)
	}
	return s
}
