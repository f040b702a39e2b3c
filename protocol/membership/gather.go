package membership

import (
	"cmp"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// The members of the first view begin one after the other, some perhaps a minute later than others. If one dies
// meanwhile, the next view may need a member that has not begun, and no process may give up a member that is about to
// begin for its silence. All wait: Patience runs from when all have begun, or the driver has reported those that never
// came.

// begun notes that a member of the first view, or a later incarnation of it, has begun.
func (p *Protocol) begun(s *State, now protocol.Time, m Member) {
	if _, first := p.cfg.First.Find(m.ID); !p.cfg.Gather || s.came.has(m.ID) || !first {
		return
	}
	p.noteGathering(s, now)
	s.came = s.came.add(m.ID)
	if c := &s.campaign; c.phase != resting { // it may answer now, and is asked again soon if it does not: Patience runs
		c.retryAt, c.wait = now, p.cfg.Retry
	}
	for i := range s.failures {
		if f := &s.failures[i]; f.to == m.ID && !f.seen {
			f.at, f.wait = now, p.cfg.Retry
		}
	}
}

// Gathering reports whether members have yet to begin.
func (p *Protocol) Gathering(s *State) bool {
	var view *View
	switch {
	case !p.cfg.Gather:
	case s.stage == inside:
		view = s.view
	case s.stage == joining:
		view = cmp.Or(s.join.view, p.cfg.First)
	}
	if view == nil {
		return false
	}
	// Joiners have begun; the process need not have heard of its own earlier incarnation.
	return slices.ContainsFunc(view.Members, func(m Member) bool {
		return m.ID != s.self.ID && !s.came.has(m.ID) && p.cfg.First.Has(m) && !s.fails(m)
	})
}

// noteGathering must be called before a change that may end the wait for members that have not begun.
func (p *Protocol) noteGathering(s *State, now protocol.Time) {
	if p.Gathering(s) {
		s.gathered = now
	}
}

// patienceEnds returns when a wait that began at a given time has lasted for patience.
func (p *Protocol) patienceEnds(s *State, began, patience protocol.Time) protocol.Time {
	if p.Gathering(s) {
		return protocol.Never
	}
	return max(began, s.gathered) + patience
}
