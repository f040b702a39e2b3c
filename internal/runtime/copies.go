package runtime

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// Copies of what tasks save, at other processes. The owner of a task keeps them, and so
// do k of its neighbours on the ring of the view, on other hosts as far as there are any. When a
// view gives a task to another process, everybody sends it what it has of the task,
// before it says that this is all, as of that view (abort.go). So the new owner knows
// when nobody has a copy. No other version ever takes its place, unless nothing is
// known any more that follows from it (drawn.go).

// copyKey names what is kept.
type copyKey struct {
	task  uint32
	epoch uint32
	key   uint64 // 0: the state; odd: what Once returned; even: a backup of a reduction
}

// replica is what is kept of it here.
type replica struct {
	key    copyKey
	value  []byte
	sign   uint64 // signature of its type
	have   bool
	stored bool           // it is kept elsewhere: no copies are made
	pooled bool           // the value is in memory of the process's buffers, and nobody else refers to it
	at     map[*peer]bool // lives of processes that were sent a copy; true: it has it
	fate   *fate          // of the operation that waits until there are copies
	own    bool           // the value is a task's of this process
}

// copyYours marks a copy that is sent to the owner of the task.
const copyYours = 1

// replica returns what is kept, or is to be.
func (p *Process) replica(key copyKey) *replica {
	r := p.epochs.copies[key]
	if r == nil {
		r = &replica{key: key}
		p.epochs.copies[key] = r
	}
	return r
}

// own keeps what a task of this process saves, and sends copies.
func (p *Process) own(key copyKey, sign uint64, value []byte, stored bool, f *fate) *replica {
	r := p.replica(key)
	r.sign = sign
	r.value, r.have, r.own, r.stored, r.pooled, r.fate = value, true, true, stored, false, f
	p.copyOut(r)
	return r
}

// mine tells whether the copy is of a task of this process.
func (p *Process) mine(key copyKey) bool { return int(p.owner[key.task]) == p.cfg.Rank }

// wanted is how many other processes must have a copy.
func (p *Process) wanted() int { return min(p.cfg.Copies, len(p.views.sight.View.Members)-1) }

// enough tells whether so many have.
func (p *Process) enough(r *replica) bool { return r.stored || p.holders(r, true) >= p.wanted() }

// holders counts the processes of the view that have a copy, or were sent one.
func (p *Process) holders(r *replica, has bool) (n int) {
	for q, acked := range r.at {
		if (acked || !has) && !q.dead && p.peers[q.rank] == q {
			if _, in := p.views.sight.View.Find(protocol.Rank(q.rank)); in {
				n++
			}
		}
	}
	return n
}

// copyOut sends copies to as many as must have one.
func (p *Process) copyOut(r *replica) {
	if r.stored || !r.have {
		return
	}
	n, want := p.holders(r, false), p.wanted()
	if n >= want {
		return
	}
	for _, rank := range p.ring() {
		if n >= want || p.dead {
			return
		}
		q := p.peerAt(rank)
		if _, sent := r.at[q]; sent || q.dead {
			continue
		}
		if r.fate != nil && r.fate.dies() {
			p.die()
			return
		}
		r.sent(q, false)
		q.send(r.envelope(opCopy), r.value, nil)
		n++
	}
}

// sent takes note that a process was sent a copy, or has one.
func (r *replica) sent(q *peer, has bool) {
	if r.at == nil {
		r.at = map[*peer]bool{}
	}
	r.at[q] = r.at[q] || has
	r.pooled = r.pooled && has // it is on its way
}

func (r *replica) envelope(op uint8) envelope {
	return envelope{scope: scope{r.key.key, r.key.epoch}, extra: uint64(r.key.task), sign: r.sign, plan: Plan{op: op}}
}

// ring lists the other processes of the view in the order in which they are given copies: those
// that follow on the ring, one of each other host before a second one of any.
func (p *Process) ring() []int {
	members := p.views.sight.View.Members
	at := 0
	for i, m := range members {
		if int(m.ID) == p.cfg.Rank {
			at = i
		}
	}
	used := map[string]bool{p.cfg.HostName: true}
	var first, rest []int
	for i := 1; i < len(members); i++ {
		rank := int(members[(at+i)%len(members)].ID)
		if host := p.peerAt(rank).host; host != "" && !used[host] { // some are not known yet
			used[host] = true
			first = append(first, rank)
		} else {
			rest = append(rest, rank)
		}
	}
	return append(first, rest...)
}

// copyAgain makes copies again that are lost.
func (p *Process) copyAgain() {
	for _, r := range p.epochs.copies {
		p.remake(r)
	}
}

// remake makes copies again of what a task of this process has saved, unless it is not known
// yet who has any.
func (p *Process) remake(r *replica) {
	if p.mine(r.key) && !r.key.backup() && (!p.reran(int(r.key.task)) || p.hears()) {
		p.copyOut(r)
	}
}

// passCopies sends the new owner of tasks what is kept of them.
func (p *Process) passCopies(q *peer) {
	for key, r := range p.epochs.copies {
		if int(p.owner[key.task]) == q.rank && p.epochs.tasks[key.task].moved && r.have {
			e := r.envelope(opCopy)
			e.kind = copyYours
			r.pooled = false
			q.send(e, r.value, nil)
		}
	}
}

// copyCame takes a copy, or its beginning.
func (p *Process) copyCame(in *incoming) {
	if in.extra >= uint64(len(p.owner)) || p.stale(in) {
		in.decline()
		in.taken()
		return
	}
	key := copyKey{uint32(in.extra), in.epoch, in.group}
	if key.backup() && !p.backupRoom(in) {
		in.decline()
		in.discard()
		in.taken()
		return
	}
	r := p.replica(key)
	if !in.complete {
		if r.have && in.kind == copyYours { // it has it
			r.sent(in.source, true)
			in.decline()
			p.lookEpochs()
			return
		}
		in = in.stay()
		p.epochs.coming = append(p.epochs.coming, in)
		in.arrived = func() {
			p.copyCame(in)
			in.taken()
			p.lookEpochs()
		}
		in.want()
		return
	}
	if !r.have {
		in.settle()
		r.value, r.sign, r.have, r.pooled = in.value, in.sign, true, in.pooled && in.kind != copyYours
		in.pooled = false
		if key.backup() {
			p.epochs.backups += int64(len(r.value))
		}
	} else {
		in.discard()
	}
	if key.key == 0 {
		for t := range p.epochs.tasks {
			p.compareStates(r, t)
		}
	}
	switch {
	case key.backup():
	case in.kind == copyYours:
		r.sent(in.source, true)
		p.remake(r) // one that came in pieces may have come after the words of all
	default:
		in.source.tell(r.envelope(opCopied))
	}
	p.lookEpochs()
}

// copied learns that a process has a copy.
func (p *Process) copied(in *incoming) {
	if in.extra >= uint64(len(p.owner)) {
		return
	}
	r := p.epochs.copies[copyKey{uint32(in.extra), in.epoch, in.group}]
	if r == nil || r.at[in.source] {
		return
	}
	r.sent(in.source, true)
	if r.fate != nil && r.fate.dies() {
		p.die()
		return
	}
	if p.enough(r) {
		r.fate = nil
		p.saved()
		p.stepSweep()
		p.lookEpochs()
	}
}

// told tells whether all have told what copies they have, and what they sent of this one
// is there.
func (p *Process) told(key copyKey) bool {
	if r := p.epochs.copies[key]; r != nil && r.have {
		return true
	}
	coming := p.epochs.coming[:0]
	waits := false
	for _, in := range p.epochs.coming {
		if in.complete || in.source.dead {
			continue
		}
		coming = append(coming, in)
		waits = waits || key == copyKey{uint32(in.extra), in.epoch, in.group}
	}
	clear(p.epochs.coming[len(coming):])
	p.epochs.coming = coming
	return !waits && p.hears()
}

// drop gives up a copy. Its memory is used again, unless somebody may still read it.
func (r *replica) drop(p *Process) {
	if p.hub != nil {
		return
	}
	if r.own && r.key.key == 0 {
		for q, acked := range r.at {
			if !acked && !q.dead {
				return
			}
		}
		p.epochs.tasks[r.key.task].spare = r.value[:0]
	} else if r.pooled {
		p.buffers.put(r.value)
	}
}

// SaveRoom returns memory for the state that the task saves next; nil: there is none.
func (m *Member) SaveRoom() []byte {
	m.p.lock()
	defer m.p.unlock()
	te := &m.p.epochs.tasks[m.task]
	room := te.spare
	te.spare = nil
	return room
}

// Recall returns what an earlier attempt of the task has kept under a key, if it has.
func (m *Member) Recall(ctx context.Context, name string, key, sign uint64) (value []byte, ok bool, err error) {
	p := m.p
	p.lock()
	defer p.unlock()
	if err := m.usable(name); err != nil {
		return nil, false, err
	}
	if !p.reran(m.task) {
		return nil, false, nil
	}
	k := copyKey{uint32(m.task), m.epoch, key}
	if err := m.awaitEpochs(ctx, name, func() bool { return p.told(k) }); err != nil {
		return nil, false, err
	}
	r := p.epochs.copies[k]
	if r == nil || !r.have {
		return nil, false, m.undrawn(name, k)
	}
	// The attempt before may have died before there were enough copies of it: nothing may
	// follow from it that outlives it.
	if err := m.awaitEpochs(ctx, name, func() bool { return p.hears() && p.enough(r) }); err != nil {
		return nil, false, err
	}
	p.drew(k)
	return r.value, true, r.typed(name, sign)
}

// typed tells if the value is of another type.
func (r *replica) typed(name string, sign uint64) error {
	if r.sign == sign {
		return nil
	}
	return &Failure{Op: name, Tasks: []int{int(r.key.task)}, Err: ErrMisuse, Text: fmt.Sprintf("task %d is run again, and calls %s with another type than before", r.key.task, name)}
}

// Keep keeps a value under a key for later attempts of the task, and waits until there are
// copies of it.
func (m *Member) Keep(ctx context.Context, name string, key, sign uint64, value []byte) error {
	p := m.p
	p.lock()
	defer p.unlock()
	if err := m.usable(name); err != nil {
		return err
	}
	var f fate
	if p.count(m.task, name, &f); p.dead {
		return ErrKilled
	}
	k := copyKey{uint32(m.task), m.epoch, key}
	r := p.own(k, sign, value, false, &f)
	if err := m.awaitEpochs(ctx, name, func() bool { return p.dead || p.enough(r) }); err != nil {
		return err
	}
	r.fate = nil
	p.drew(k)
	return m.usable(name)
}

// OnceKey is the name of the task's next value of Once in the group.
func (m *Member) OnceKey() uint64 {
	m.p.lock()
	defer m.p.unlock()
	m.onces++
	return protocol.Mix(m.group, m.onces) | 1
}
