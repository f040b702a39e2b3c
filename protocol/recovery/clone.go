package recovery

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Clone returns a copy that shares nothing that changes.
func (m *Machine) Clone() *Machine {
	c := *m
	c.sweep = m.sweep.clone()
	c.tasks, c.copies, c.owed = slices.Clone(m.tasks), slices.Clone(m.copies), slices.Clone(m.owed)
	for i := range c.copies {
		r := &c.copies[i]
		r.asked, r.holders = slices.Clone(r.asked), slices.Clone(r.holders)
	}
	c.lost, c.drawn, c.words = slices.Clip(m.lost), slices.Clip(m.drawn), slices.Clone(m.words)
	c.spares = slices.Clone(m.spares)
	c.records, c.known, c.coming = slices.Clone(m.records), slices.Clone(m.known), slices.Clone(m.coming)
	c.effects, c.spare = slices.Clone(m.effects), nil
	return &c
}

// Sign passes on numbers that stand for the state, if all effects have been taken.
func (m *Machine) Sign(add func(uint64)) {
	add(uint64(m.self.Incarnation))
	if m.view != nil {
		add(m.view.Number)
	}
	for i := range m.tasks {
		t := &m.tasks[i]
		add(uint64(t.number)<<32 | t.since)
		add(t.at<<32 | t.to)
		add(uint64(t.balance))
	}
	sum := uint64(0) // of what has no order
	for _, l := range m.lost {
		sum += protocol.Mix(uint64(l.task), 1)
	}
	for _, op := range m.records {
		sum += protocol.Mix(protocol.Mix(op.Group, op.Epoch), op.Seq)
	}
	for i := range m.copies {
		sum += m.copies[i].print()
	}
	for _, k := range m.drawn {
		sum += protocol.Mix(k.print(), 2)
	}
	for _, c := range m.coming {
		sum += protocol.Mix(c.Key.print(), protocol.Mix(uint64(c.from.ID), uint64(c.from.Incarnation)))
	}
	add(sum<<1 | bit(m.over))
	for _, list := range [][]uint64{m.words, {m.committed, m.wish, m.departed}} {
		for _, x := range list {
			add(x)
		}
	}
	for _, s := range append(slices.Clip(m.spares), m.sparing) {
		add(s.view)
		add(s.first<<32 | s.last)
	}
	for _, told := range m.owed {
		add(uint64(told))
	}
	m.sweep.sign(add)
}

func (k Key) print() uint64 { return protocol.Mix(protocol.Mix(uint64(k.Task), k.Epoch), k.Name) }

func (r *replica) print() uint64 {
	sum := r.Key.print() + r.complete
	for _, o := range r.asked {
		sum += protocol.Mix(uint64(o.ID), uint64(o.Incarnation))
	}
	for _, o := range r.holders {
		sum += protocol.Mix(uint64(o.ID)+1<<32, uint64(o.Incarnation))
	}
	return protocol.Mix(sum, 1)
}

// clone returns a copy that shares nothing that changes.
func (s *Sweep) clone() Sweep {
	c := *s
	c.members, c.came, c.held = slices.Clone(s.members), slices.Clone(s.came), slices.Clone(s.held)
	return c
}

func (s *Sweep) sign(add func(uint64)) {
	for _, x := range []uint64{s.view, s.saved, uint64(s.surplus), s.committed, uint64(s.balance), uint64(s.told)<<2 | bit(s.known)<<1 | bit(s.hold)} {
		add(x)
	}
	for _, x := range append(slices.Clip(s.came), s.sent) {
		add(x.saved)
		add(x.committed)
		add(uint64(x.balance)<<1 | bit(x.said))
	}
	sum := uint64(0)
	for _, h := range s.held {
		sum += protocol.Mix(h.msg.Print(), uint64(h.from))
	}
	add(sum)
}

// Print stands for the message.
func (m SweepMessage) Print() uint64 {
	return protocol.Mix(protocol.Mix(m.View<<1|bit(m.Up), m.Saved), protocol.Mix(m.Committed, uint64(m.Balance)))
}

// Print stands for the message.
func (m Message) Print() uint64 {
	p := protocol.Mix(uint64(m.Kind), m.View)
	p = protocol.Mix(p, protocol.Mix(protocol.Mix(m.Op.Group, m.Op.Epoch), m.Op.Seq))
	return protocol.Mix(protocol.Mix(p, m.Key.print()), protocol.Mix(uint64(m.Task), m.Sweep.Print()))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Clone returns a copy that shares nothing that changes.
func (l *Log) Clone() *Log {
	c := &Log{head: l.head, ranks: slices.Clone(l.ranks)}
	for i := range c.ranks {
		s := &c.ranks[i]
		s.large, s.pages = slices.Clip(s.large), slices.Clone(s.pages)
		if last := len(s.pages) - 1; last >= 0 {
			s.pages[last] = slices.Clip(s.pages[last])
		}
	}
	return c
}
