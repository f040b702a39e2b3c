package membership

import "github.com/coppice-go/coppice/protocol"

// The members of the first view begin one after the other, some perhaps a minute later than others. If one dies meanwhile, the members that
// have begun may be too few to decide the next view. They wait for those that have not begun: Patience runs
// from when enough have, or when the driver suspects the members that never came.

// begun takes note that a member of the first view has begun.
func (p *Protocol) begun(s *State, now protocol.Time, m Member) {
	if !p.cfg.Gather || s.stage != inside || s.view.Number != p.cfg.First.Number || s.came.has(m.ID) || !s.view.Has(m) {
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
	if !p.cfg.Gather || s.stage != inside || s.view.Number != p.cfg.First.Number {
		return false
	}
	came, awaited := 0, false
	for _, m := range s.view.Members {
		switch {
		case s.fails(m):
		case m == s.self || s.came.has(m.ID):
			came++
		default:
			awaited = true
		}
	}
	return awaited && 2*came <= len(s.view.Members)
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
