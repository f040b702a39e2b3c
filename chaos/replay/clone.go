package replay

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Testament returns the record that a process would leave if it crashed now.
func Testament(s *State) Message {
	m := s.job.memory.message(View)
	m.Letter = membership.Testament(&s.members)
	return m
}

// Clone returns a copy that shares nothing that changes.
func (s *State) Clone() State {
	c := *s
	if s.end != nil {
		c.end = s.end.clone()
		return c
	}
	c.members = s.members.Clone()
	c.inside = s.inside.clone()
	c.tasks = make([]*task, len(s.tasks))
	for i, t := range s.tasks {
		c.tasks[i] = t.clone(s.job.program)
	}
	c.held, c.parcels, c.events, c.kept = slices.Clip(s.held), slices.Clone(s.parcels), slices.Clone(s.events), slices.Clone(s.kept)
	c.asked, c.pieces = slices.Clone(s.asked), slices.Clone(s.pieces)
	for i := range c.asked {
		c.asked[i] = s.asked[i].Clone()
	}
	for i, p := range c.pieces {
		one := *p
		c.pieces[i] = &one
	}
	c.rules, c.effects = s.rules.Clone(), nil
	return c
}

// Fingerprint implements chaos.Fingerprinter.
func (s *State) Fingerprint() [2]uint64 {
	if s.end != nil {
		return s.end.sign(fingerprint{1, 0})
	}
	f := fingerprint{}.and(s.members.Fingerprint()).with(s.told)
	if s.job.inside {
		f = s.inside.sign(f)
	}
	s.rules.Sign(func(x uint64) { f = f.with(x) })
	for _, p := range s.parcels {
		f = f.with(uint64(p.to)).and(p.msg.Fingerprint())
	}
	for _, m := range s.events {
		f = f.and(m.Fingerprint())
	}
	loose := uint64(0) // hash of what has no order
	for _, c := range s.kept {
		loose += c.print()
	}
	for r := range s.asked {
		f = f.with(uint64(s.asked[r].Len()))
	}
	for _, p := range s.pieces {
		f = f.with(p.frame.Key()).with(uint64(p.by.ID)<<32 | uint64(p.number)).with(bit(p.Answered()))
	}
	for _, e := range s.cancels {
		loose += protocol.Mix(e, 2)
	}
	f = f.with(loose).with(uint64(len(s.parcels))<<2 | bit(s.wish)<<1 | bit(s.lost != nil))
	if s.view != nil {
		f = f.with(s.view.Number)
	}
	for _, t := range s.tasks {
		f = t.sign(f)
	}
	sum := uint64(0)
	for _, h := range s.held {
		sum += protocol.Mix(h.Key(), h.Sum()) ^ uint64(h.by.ID)<<32 ^ uint64(h.by.Incarnation)
	}
	f = f.with(sum).with(uint64(len(s.held))<<5 | bit(s.retired)<<4 | bit(s.called)<<3 | bit(s.left)<<2 | bit(s.ended)<<1 | bit(s.over != nil))
	return f
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// print returns a hash of a copy.
func (c *Copy) print() uint64 {
	return protocol.Mix(protocol.Mix(uint64(c.Task), c.Epoch), protocol.Mix(c.Name, protocol.Mix(c.digest, c.past)))
}
