package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// A process that is to end, and has time before it does, leaves in two steps, each of which is a view. First it reports
// to the proposer that it leaves, and the next view announces that to all (View.Leaving): from then on it gets no tasks
// or copies that it would take with it, and what it has goes to others (package recovery). When no process needs it any
// more, as of a view, it says that it is free, and the view after that one is without it. It votes on that view as on
// any other. So however many leave at the same time, those that stay have their votes, and no process has to be found
// dead. It lingers until that view is open, and sends it to its members: those that stay may be fewer than a quorum of
// the view before, and could not find out what was decided if all others were gone.
//
// It costs a message to the proposer for each step, and the view; processes that leave at the same time share views. A
// process that leaves notifies a new proposer itself.

// leaver is a process that has announced to this one that it leaves.
type leaver struct {
	who  Member
	free bool // as of the view in force
}

// leaveState is the state of a process that leaves.
type leaveState struct {
	on   bool
	free uint64        // the view as of which no process needs it; 0: none
	to   protocol.Rank // the proposer last notified; nobody: none in this view
	at   protocol.Time // when to notify it again
	wait protocol.Time // and how long after that

	lingers bool          // it is removed, and waits until the view without it is open
	until   protocol.Time // but no longer than this
}

// Leave says that this process is to leave. free is the view as of which no process needs it any more: the next one may
// be without it. 0: it is still needed. A process that is no member cannot leave.
func (p *Protocol) Leave(s *State, now protocol.Time, free uint64) {
	if s.stage != inside {
		return
	}
	if !s.leave.on {
		s.leave = leaveState{on: true, to: nobody, at: now, wait: p.cfg.Retry}
	}
	if free == s.view.Number && s.leave.free != free {
		s.leave.free, s.leave.to, s.leave.at, s.leave.wait = free, nobody, now, p.cfg.Retry
	}
}

// Leaving reports whether the process has announced that it leaves.
func (s *State) Leaving() bool { return s.leave.on }

// Free reports whether the process has announced that no process needs it any more: it has left once it is removed.
func (s *State) Free() bool { return s.leave.free > 0 }

// goes reports whether the process still has to ask for a view.
func (s *State) goes() bool { return s.leave.on && (s.leave.free > 0 || !s.view.Leaves(s.self.ID)) }

// goodbye notifies the proposer that this process leaves, or is free.
func (p *Protocol) goodbye(s *State, now protocol.Time) {
	if !s.goes() {
		return
	}
	l := &s.leave
	chief := p.chief(s)
	if chief == s.self {
		s.takeLeave(s.self, l.free)
		return
	}
	if l.to == chief.ID && now < l.at {
		return
	}
	if l.to != chief.ID {
		l.wait = p.cfg.Retry
	}
	l.to, l.at, l.wait = chief.ID, now+l.wait, 2*l.wait
	s.send(chief.ID, chief.Incarnation, p.write(Letter{Kind: Leave, Who: s.self, Number: l.free}))
}

// linger asks the members of the view without this process whether it is open, and sends it to them.
func (p *Protocol) linger(s *State, now protocol.Time) {
	l := &s.leave
	switch {
	case !l.lingers:
	case now >= l.until:
		p.part(s)
	case now >= l.at:
		l.at, l.wait = now+l.wait, 2*l.wait
		for _, m := range s.view.Members {
			s.send(m.ID, m.Incarnation, p.write(Letter{Kind: Decided, Number: s.view.Number, Base: s.view}))
			s.send(m.ID, m.Incarnation, p.write(Letter{Kind: Leave, Who: s.self, Number: l.free})) // it is answered
		}
	}
}

// part notifies the user that this process is removed.
func (p *Protocol) part(s *State) {
	s.leave.lingers = false
	s.deliver(p.write(Letter{Kind: Excluded, Number: s.view.Number, Base: s.view}))
}

// parted returns the members that left with v, which follows from.
func (v *View) parted(from *View) (all []Member) {
	if from == nil || len(from.Leaving) == 0 {
		return nil
	}
	for _, m := range from.Members {
		if from.Leaves(m.ID) && !v.Has(m) {
			all = append(all, m)
		}
	}
	return all
}

func (p *Protocol) goodbyeDue(s *State) protocol.Time {
	if !s.goes() || p.chief(s) == s.self {
		return protocol.Never
	}
	return s.leave.at
}

// leaves handles the notice that a process leaves. A process that does not propose passes it on.
func (p *Protocol) leaves(s *State, l *Letter) {
	if s.stage != inside || !s.view.Has(l.Who) {
		return
	}
	if chief := p.chief(s); chief != s.self {
		if chief != l.Who {
			s.send(chief.ID, chief.Incarnation, p.write(*l))
		}
		return
	}
	s.takeLeave(l.Who, l.Number)
}

// takeLeave notes a process that leaves, unless the view in force says so already.
func (s *State) takeLeave(who Member, free uint64) {
	isFree := free == s.view.Number
	if !isFree && s.view.Leaves(who.ID) {
		return
	}
	i, has := slices.BinarySearchFunc(s.leavers, who, func(l leaver, m Member) int { return l.who.compare(m) })
	if has && (s.leavers[i].free || !isFree) {
		return
	}
	if !has {
		s.leavers = slices.Insert(s.leavers, i, leaver{who: who})
	}
	s.leavers[i].free = isFree
}

// stayLeaving carries over into the next view which processes leave. That no process needs one of them any more stays
// true if that view differs only in that other leaving processes are gone: what was needed of those, others have.
func (p *Protocol) stayLeaving(s *State, now protocol.Time, v *View) {
	free := s.view != nil && v.shrinks(s.view)
	if l := &s.leave; l.on {
		if !free {
			l.free = 0
		}
		if l.to, l.at, l.wait = nobody, now, p.cfg.Retry; l.free > 0 {
			l.free = v.Number
		}
	}
	still := s.leavers[:0]
	for _, l := range s.leavers {
		if l.free = l.free && free; v.Has(l.who) && (l.free || !v.Leaves(l.who.ID)) {
			still = append(still, l)
		}
	}
	s.leavers = still
}

// shrinks reports whether v follows from, and the only difference is that some leaving members are gone.
func (v *View) shrinks(from *View) bool {
	if v.Number != from.Number+1 || v.Epoch != from.Epoch || !slices.Equal(v.Owners, from.Owners) || !slices.Equal(v.Since, from.Since) {
		return false
	}
	for _, m := range from.Members {
		if !v.Has(m) && !from.Leaves(m.ID) {
			return false
		}
	}
	for _, m := range v.Members {
		if !from.Has(m) || v.Leaves(m.ID) != from.Leaves(m.ID) {
			return false
		}
	}
	return true
}

// freed reports whether a member may be left out of the next view, as it wants to be.
func (s *State) freed(m Member) bool {
	return slices.ContainsFunc(s.leavers, func(l leaver) bool { return l.who == m && l.free })
}

// leaving returns which members of the view in force leave in the next view.
func (s *State) leaving() []protocol.Rank {
	if len(s.leavers) == 0 {
		return s.view.Leaving
	}
	all := make([]protocol.Rank, 0, len(s.view.Leaving)+len(s.leavers))
	for _, m := range s.view.Members {
		if s.view.Leaves(m.ID) || slices.ContainsFunc(s.leavers, func(l leaver) bool { return l.who == m }) {
			all = append(all, m.ID)
		}
	}
	return all
}

// Leaves reports whether a member leaves.
func (v *View) Leaves(id protocol.Rank) bool {
	_, does := slices.BinarySearch(v.Leaving, id)
	return does
}

// left marks those of some that are members as leaving, and returns the view.
func (v *View) left(some []protocol.Rank) *View {
	for i, id := range some {
		_, in := v.Find(id)
		switch {
		case in && i == len(v.Leaving):
			v.Leaving = some[:i+1] // shared
		case in:
			v.Leaving = append(slices.Clip(v.Leaving), id)
		}
	}
	return v
}

// announced returns the next view if nothing changes but which members leave.
func (v *View) announced(leaving []protocol.Rank) *View {
	next := &View{Number: v.Number + 1, Members: v.Members, Gone: v.Gone, Epoch: v.Epoch}
	return next.left(leaving).owned(v, v.Owners)
}
