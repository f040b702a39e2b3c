package membership

import (
	"cmp"

	"github.com/coppice-go/coppice/protocol"
)

// The members of the first view begin one after the other, some perhaps a minute later than others. If one dies meanwhile, the members that
// have begun may be too few to decide the next view, or the one after that. They wait for those that have not begun: Patience runs
// from when enough have, or when the driver suspects the members that never came.

// begun takes note that a member of the first view, or a later life of it, has begun.
func (p *Protocol) begun(s *State, now protocol.Time, m Member) {
	if _, first := p.cfg.First.Find(m.ID); !p.cfg.Gather || s.came.has(m.ID) || !first {
		return
	}
	p.noteGathering(s, now)
	s.came = s.came.add(m.ID)
	if c := &s.campaign; c.phase != resting { // it may answer now
		c.retryAt = now
	}
}

// Gathering reports whether members have yet to begin without which there is no majority.
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
	came, awaited := 0, false
	for _, m := range view.Members {
		switch {
		case s.fails(m) || m.ID == s.self.ID && m != s.self: // of its own earlier life it need not have heard
		case m == s.self || s.came.has(m.ID) || !p.cfg.First.Has(m): // who has joined has begun
			came++
		default:
			awaited = true
		}
	}
	return awaited && 2*came <= len(view.Members)
}

// noteGathering is called before what may end the wait for members that have not begun.
func (p *Protocol) noteGathering(s *State, now protocol.Time) {
	if p.Gathering(s) {
		s.gathered = now
	}
}

// patienceEnds is when a wait that has begun at a time has lasted for so long.
func (p *Protocol) patienceEnds(s *State, began, patience protocol.Time) protocol.Time {
	if p.Gathering(s) {
		return protocol.Never
	}
	return max(began, s.gathered) + patience
}
