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
//  3. An owner that has what it needs at staying processes, and has heard all words if it runs a task again, spares the
//     leaving ones, as of the view: it sends them Spare. A copy of which only the beginning has come is not here yet.
//  4. A leaving process that owns no task, and is spared by all owners, as of the view, departs: it asks for a view
//     without it.
//  5. If all of the view leave, there is no process to hand anything over to: they disband, each at once.
//
// It costs a message from each owner to each process that leaves, for a view, and the copies.
//
// Why several may leave at once: that an owner spares one does not depend on any other that leaves. And it stays true in
// the view: what is saved later is copied to staying processes, too.

// leaving does what follows from the leaving members of the view.
func (m *Machine) leaving() {
	if m.view == nil || len(m.view.Leaving) == 0 {
		return
	}
	now := m.view.Number
	if m.sparing < now && len(m.tasks) > 0 && m.needsNobody() {
		m.sparing = now
		for _, id := range m.view.Leaving {
			m.tell(id, Message{Kind: Spare, View: now})
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

// spared reports whether this process owns no task, and no owner needs it.
func (m *Machine) spared() bool {
	for _, owner := range m.view.Owners {
		if owner == m.self.ID || owner >= 0 && (int(owner) >= len(m.spares) || m.spares[owner] != m.view.Number) {
			return false
		}
	}
	return true
}

// sparedBy notes that an owner does not need this process, as of a view.
func (m *Machine) sparedBy(from protocol.Rank, view uint64) {
	for len(m.spares) <= int(from) {
		m.spares = append(m.spares, 0)
	}
	m.spares[from] = max(m.spares[from], view)
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
