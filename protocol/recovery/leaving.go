package recovery

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Leaving. A process that is to end, and has time before it does, hands over what it has: nothing is run again, and
// nothing is lost, however many leave at the same time. A view says which processes leave (package membership). The rule:
//
//  1. Tasks of leaving processes move in Save (moves.go), to those that stay.
//  2. A copy at a leaving process does not count as one that stays: an owner makes copies at as many staying processes as
//     if these were alone. As long as the leaving processes are there, they make up the number if there are few others.
//  3. A process that has what its tasks need at staying processes, and has heard all words if it runs a task again, spares the
//     leaving ones, as of the view: it sends them Spare, with the epoch that it knows to be committed, and again when it knows of a
//     later one. A copy of which only the beginning has come is not here yet. A leaving process without tasks need not.
//  4. What an owner needs is of the epoch that it knows to be committed. Others may know of an earlier one only, and go on from that
//     if the owner dies; the leaving process may be the only one that has its states.
//  5. So a leaving process departs, that is, it asks for a view without it, if it owns no task, all owners and all that stay spare it, as
//     of the view, and all that stay know to be committed what was when the owners spared it.
//  6. If all of the view leave, there is no process to hand anything over to: they disband, each at once.
//
// It costs a message from each process to each that leaves, for a view and for an epoch, and the copies.
//
// Why several may leave at once: that an owner spares one does not depend on any other that leaves. And it stays true in
// the view: what is saved later is copied to staying processes, too.

// spare says that a process needs nothing from leaving processes, as of a view.
type spare struct {
	view  uint64
	first uint64 // the epoch that it knew to be committed when it said so for the first time
	last  uint64 // the latest of which it has said so
}

// leaving does what follows from the leaving members of the view.
func (m *Machine) leaving() {
	if m.view == nil || len(m.view.Leaving) == 0 {
		return
	}
	now := m.view.Number
	if news := m.sparing.view < now || m.sparing.last < m.committed; news && (len(m.tasks) > 0 || !m.view.Leaves(m.self.ID)) &&
		(m.sparing.view == now || m.needsNobody()) {
		m.sparing = spare{view: now, last: m.committed}
		for _, id := range m.view.Leaving {
			m.tell(id, Message{Kind: Spare, View: now, Key: Key{Epoch: m.committed}})
		}
	}
	switch {
	case m.departed == now || !m.view.Leaves(m.self.ID):
	case len(m.view.Leaving) == len(m.view.Members):
		m.departed = now
		m.do(Effect{Act: Disband})
	case m.spared():
		m.departed = now
		m.do(Effect{Act: Depart, Epoch: now})
	}
}

// needsNobody reports whether the staying processes have, with this one, all that its tasks need.
func (m *Machine) needsNobody() bool {
	for i := range m.tasks {
		if !m.tasks[i].first() && !m.Heard() {
			return false
		}
	}
	for _, c := range m.coming {
		if m.find(c.Task) != nil {
			return false
		}
	}
	for i := range m.copies {
		if r := &m.copies[i]; m.find(r.Task) != nil && !r.Backup() && !m.enough(r) {
			return false
		}
	}
	return true
}

// spared reports whether this process owns no task, and no process needs it.
func (m *Machine) spared() bool {
	by := func(id protocol.Rank) (s spare) {
		if int(id) < len(m.spares) {
			s = m.spares[id]
		}
		return s
	}
	epoch := uint64(0) // as of which no owner needs it
	for _, owner := range m.view.Owners {
		if owner == m.self.ID || owner >= 0 && by(owner).view != m.view.Number {
			return false
		}
		if owner >= 0 {
			epoch = max(epoch, by(owner).first)
		}
	}
	for _, o := range m.view.Members {
		if s := by(o.ID); !m.view.Leaves(o.ID) && (s.view != m.view.Number || s.last < epoch) {
			return false
		}
	}
	return true
}

// sparedBy notes that a process does not need this one, as of a view, and knows an epoch to be committed.
func (m *Machine) sparedBy(from protocol.Rank, view, epoch uint64) {
	for len(m.spares) <= int(from) {
		m.spares = append(m.spares, spare{})
	}
	switch s := &m.spares[from]; {
	case s.view < view:
		*s = spare{view, epoch, epoch}
	case s.view == view:
		s.last = max(s.last, epoch)
	}
}

// number is how many of some are in the view, and how many of these stay.
func (m *Machine) number(some []membership.Member) (all, stay int) {
	for _, o := range some {
		if m.view.Has(o) {
			if all++; !m.view.Leaves(o.ID) {
				stay++
			}
		}
	}
	return all, stay
}

// wanted is how many others must have a copy, and how many of those that stay.
func (m *Machine) wanted() (all, stay int) {
	all, stay = len(m.view.Members), len(m.view.Members)-len(m.view.Leaving)
	if all--; !m.view.Leaves(m.self.ID) {
		stay--
	}
	return min(m.cfg.Copies, all), min(m.cfg.Copies, stay)
}
