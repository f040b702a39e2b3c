package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Copies of what tasks save, at other processes. Package recovery decides who has them; here are the
// bytes. No other version ever takes the place of one.

// replica is what is kept under a key.
type replica struct {
	key    recovery.Key
	value  []byte
	sign   uint64 // signature of its type
	pooled bool   // the value is in memory of the process's buffers, and nobody else refers to it
	sent   int    // so many were sent it, and have not said that they have it
	fate   *fate  // of the operation that waits until there are copies
	own    bool   // the value is a task's of this process
}

// copyYours marks a copy that is sent to the owner of the task.
const copyYours = 1

// own keeps what a task of this process saves, and has copies made. stored: it is kept elsewhere,
// and needs none.
func (p *Process) own(key recovery.Key, sign uint64, value []byte, stored bool, f *fate) *replica {
	r := &replica{key: key, value: value, sign: sign, own: true, fate: f}
	p.recovery.epochs.copies[key] = r
	p.recovery.rules.Kept(key, stored)
	p.carryOut()
	return r
}

// sendCopy sends a copy.
func (p *Process) sendCopy(q *peer, e *recovery.Effect) {
	r := p.recovery.epochs.copies[e.Key]
	if r == nil || q.dead {
		return
	}
	head := keyed(e.Key, opCopy)
	head.sign = r.sign
	if e.Msg.Kind == recovery.Have {
		head.kind = copyYours
	} else if r.fate != nil && r.fate.dies() {
		p.die()
		return
	}
	r.pooled = false
	r.sent++
	q.send(head, r.value, nil)
}

// ring lists the other processes of the view in the order in which they are given copies: those
// that follow on the ring, one of each other host before a second one of any.
func (p *Process) ring(v *membership.View, self membership.Member) []protocol.Rank {
	members := v.Members
	at := 0
	for i, m := range members {
		if m.ID == self.ID {
			at = i
		}
	}
	used := map[string]bool{p.cfg.HostName: true}
	var first, rest []protocol.Rank
	for i := 1; i < len(members); i++ {
		rank := members[(at+i)%len(members)].ID
		if host := p.peerAt(int(rank)).host; host != "" && !used[host] { // some are not known yet
			used[host] = true
			first = append(first, rank)
		} else {
			rest = append(rest, rank)
		}
	}
	return append(first, rest...)
}

// copyCame takes a copy, or its beginning.
func (p *Process) copyCame(in *incoming) {
	key := keyOf(in)
	if !p.roster.Has(in.extra) || p.stale(in) || key.Backup() && !backupFits(p.recovery.history.bytes, p.recovery.epochs.backups, int64(in.size), p.cfg.Buffer) {
		in.drop()
		return
	}
	said := recovery.Message{Kind: recovery.Keep, Key: key}
	if in.kind == copyYours {
		said.Kind = recovery.Have
	}
	r := p.recovery.epochs.copies[key]
	if !in.Complete() {
		if r != nil && in.kind == copyYours { // it has it
			in.drop()
			p.heardRule(in.source, said)
			return
		}
		p.recovery.rules.Coming(in.source.life(), key)
		in = in.stay()
		in.arrived = func() {
			p.copyCame(in)
		}
		in.want()
		return
	}
	if r == nil {
		in.settle()
		r = &replica{key: key, value: in.value, sign: in.sign, pooled: in.pooled && in.kind != copyYours}
		p.recovery.epochs.copies[key] = r
		in.pooled = false
		if key.Backup() {
			p.recovery.epochs.backups += int64(len(r.value))
		}
	} else {
		in.discard()
	}
	if key.Name == 0 {
		for t := range p.recovery.epochs.tasks {
			p.compareStates(r, t)
		}
	}
	p.heardRule(in.source, said)
}

// copied learns that a process has a copy.
func (p *Process) copied(in *incoming) {
	if !p.roster.Has(in.extra) {
		return
	}
	key := keyOf(in)
	if r := p.recovery.epochs.copies[key]; r != nil {
		r.sent--
		if r.fate != nil && r.fate.dies() {
			p.die()
			return
		}
	}
	p.heardRule(in.source, recovery.Message{Kind: recovery.Kept, Key: key})
}

// drop gives up a copy. Its memory is used again, unless somebody may still read it.
func (r *replica) drop(p *Process) {
	if p.hub() != nil {
		return
	}
	if r.own && r.key.Name == 0 {
		if r.sent == 0 {
			p.recovery.epochs.tasks[r.key.Task].spare = r.value[:0]
		}
	} else if r.pooled {
		p.engine.Buffers.Put(r.value)
	}
}

// SaveRoom returns memory for the state that the task saves next; nil: there is none.
func (m *Member) SaveRoom() []byte {
	m.p.engine.Lock()
	defer m.p.engine.Unlock()
	te := &m.p.recovery.epochs.tasks[m.task]
	room := te.spare
	te.spare = nil
	return room
}

// Elsewhere keeps values of Once in the place of other processes.
type Elsewhere interface {
	Value(epoch, key, sign uint64) ([]byte, error)                         // fs.ErrNotExist: there is none
	Keep(epoch, key, sign uint64, value []byte) (before []byte, err error) // before: another attempt was faster
}

// Once has f called and keeps the value that it returns for later attempts of the task: at other processes, or where at
// says. If an attempt has kept one already, it returns that.
func (m *Member) Once(ctx context.Context, sign uint64, at Elsewhere, f func() ([]byte, error)) (kept []byte, ok bool, err error) {
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	m.onces++
	k := m.named(protocol.Mix(m.group, m.onces) | 1)
	if at != nil {
		err = p.unlocked(func() (err error) {
			kept, err = at.Value(k.Epoch, k.Name, sign)
			return err
		}, nil)
		if ok = err == nil; errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		kept, ok, err = m.recall(ctx, k, sign)
	}
	if ok || err != nil {
		return kept, ok, err
	}
	value, err := m.ask(f)
	if err == nil {
		err = m.usable(onceName)
	}
	if err != nil {
		return nil, false, err
	}
	var fa fate
	if at != nil { // the process may have been ordered to die here, too
		p.count(m.task, onceName, nil)
	} else {
		p.count(m.task, onceName, &fa)
	}
	switch {
	case p.dead:
		return nil, false, ErrKilled
	case at != nil:
		err = p.unlocked(func() (err error) {
			kept, err = at.Keep(k.Epoch, k.Name, sign, value)
			return err
		}, nil)
		return kept, kept != nil, err
	}
	r := p.own(k, sign, value, false, &fa)
	if err := m.awaitRules(ctx, onceName, func() bool { return p.dead || p.recovery.rules.Enough(k) }); err != nil {
		return nil, false, err
	}
	r.fate = nil
	p.recovery.rules.Drew(k)
	return nil, false, m.usable(onceName)
}

// onceName is what Once is called as an operation.
const onceName = "once"

// ask has the function of a Once called. Who runs the task again does not call it, and would
// miss what the task called there: operations of the task fail until it has returned.
func (m *Member) ask(f func() ([]byte, error)) (value []byte, err error) {
	m.asking = true
	defer func() { m.asking = false }()
	err = m.p.unlocked(func() (err error) {
		value, err = f()
		return err
	}, nil)
	return value, err
}

// recall returns what an earlier attempt of the task has kept under a key, if it has.
func (m *Member) recall(ctx context.Context, k recovery.Key, sign uint64) (value []byte, ok bool, err error) {
	p := m.p
	if err := m.usable(onceName); err != nil || !p.reran(m.task) {
		return nil, false, err
	}
	var known recovery.Recollection
	err = m.awaitRules(ctx, onceName, func() bool {
		known = p.recovery.rules.Recall(k)
		return known != recovery.Unknown
	})
	switch {
	case err != nil || known == recovery.Fresh:
		return nil, false, err
	case known == recovery.Missing:
		return nil, false, m.lose(onceName, fmt.Sprintf("no process has what its once returned in epoch %d any more, and others know what followed; more Copies, or Stored, would have kept it", k.Epoch))
	}
	p.recovery.rules.Drew(k)
	r := p.recovery.epochs.copies[k]
	return r.value, true, r.typed(onceName, sign)
}

// named is the key of what the task keeps in the group under a name.
func (m *Member) named(name uint64) recovery.Key {
	return recovery.Key{Task: protocol.Rank(m.task), Epoch: uint64(m.epoch), Name: name}
}

// typed tells if the value is of another type.
func (r *replica) typed(name string, sign uint64) error {
	if r.sign == sign {
		return nil
	}
	return &Failure{Op: name, Tasks: []int{int(r.key.Task)}, Err: ErrMismatch, Text: fmt.Sprintf("task %d is run again, and calls %s with another type than before", r.key.Task, name)}
}
