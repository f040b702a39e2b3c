package runtime

import "fmt"

// What is known of values of Once. If all copies of one are lost, a task that is run again may
// call its function anew only if nobody who lives has anything that follows from it. So every
// process knows of which values it may have: before a process sends another one anything
// that may follow from them, it tells it of the values that tasks have returned with there, and of
// those that it was told of itself. Links keep the order, so whoever has anything that
// follows from a value knows of it, and the word of all (abort.go) comes after all that they know.
// protocol/recovery/copies.go has the same rule, and the mistakes that can be made.
//
// It costs 64 bytes for each value and each two processes that send each other anything, and
// about as much memory in each process that is told, until the epoch is over.

// drawn is what a process knows of values.
type drawn struct {
	known map[copyKey]bool
	all   []copyKey // in the order in which they came
}

// drew takes note that something may follow from a value.
func (p *Process) drew(key copyKey) {
	d := &p.epochs.drawn
	if d.known[key] {
		return
	}
	if d.known == nil {
		d.known = map[copyKey]bool{}
	}
	d.known[key] = true
	d.all = append(d.all, key)
}

// toldDrawn is told of a value.
func (p *Process) toldDrawn(in *incoming) {
	if in.extra < uint64(len(p.owner)) && !p.stale(in) {
		p.drew(copyKey{uint32(in.extra), in.epoch, in.group})
	}
}

// tellDrawn tells a process of the values that it was not told of: what follows to it may follow
// from them. It is written with that.
func (q *peer) tellDrawn() {
	for all := q.p.epochs.drawn.all; q.drawn < len(all) && !q.dead && !q.left; q.drawn++ {
		k := all[q.drawn]
		e := envelope{scope: scope{k.key, k.epoch}, extra: uint64(k.task), plan: Plan{op: opDrawn}}
		if q.local != nil {
			q.mail(&terms{}, &e, nil)
			continue
		}
		q.linked()
		q.first(&e, nil, 0)
	}
}

// dropDrawn forgets the values of the epochs before one, except the first.
func (p *Process) dropDrawn(epoch uint64) {
	d := &p.epochs.drawn
	before := make([]int, len(d.all)+1) // how many stay of so many
	kept := d.all[:0]
	for i, key := range d.all {
		if key.epoch == 0 || uint64(key.epoch) >= epoch {
			kept = append(kept, key)
		} else {
			delete(d.known, key)
		}
		before[i+1] = len(kept)
	}
	d.all = kept
	for _, q := range p.peers {
		q.drawn = before[q.drawn]
	}
}

// undrawn tells why the task cannot have a value of Once anew of which there is no copy, if
// it cannot.
func (m *Member) undrawn(name string, key copyKey) error {
	if !m.p.epochs.drawn.known[key] {
		return nil
	}
	return m.lose(name, fmt.Sprintf("no process has what its %s returned in epoch %d any more, and others know what followed", name, key.epoch))
}
