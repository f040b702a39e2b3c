package control

import (
	"fmt"
	"time"
)

// fenceAsked kills a process for another one, which cannot go on while it may be
// alive: rule 1 of the design. Who holds promises of a majority of the view needs no
// more. With two processes left there is no majority without the other: then it is
// decided here, once, so that not both die. s.mu is held.
func (s *Server) fenceAsked(c *session, said message) {
	if said.Rank < 0 || said.Rank >= len(s.members) {
		return
	}
	m, by := s.members[said.Rank], c.member
	silent := time.Since(m.heard)
	if !m.joined && s.awaited(m) && silent >= s.cfg.Silence/2 && (said.Quorum || s.lastTwo(m, by)) {
		s.giveUp(m, fmt.Sprintf("never joined: asked for by rank %d: %s", by.rank, said.Why))
		return
	}
	if said.Incarnation != m.incarnation || !m.joined {
		return
	}
	s.log.Info("control: fence asked for", "rank", m.rank, "by", by.rank, "why", said.Why, "quorum", said.Quorum, "silent", silent)
	switch {
	case m.death != nil && m.death.Certain:
		c.tellDeath(m.obituary)
	case m.fenced != "" || by.fenced != "": // one of the two is about to die
	case said.Quorum:
		s.execute(m, fmt.Sprintf("asked for by rank %d with a majority: %s", by.rank, said.Why))
	case !s.lastTwo(m, by):
		s.suspected(c, said)
	case silent >= s.cfg.Silence/2:
		s.execute(m, fmt.Sprintf("silent for %s, asked for by rank %d, the only other: %s", seconds(silent), by.rank, said.Why))
	default: // both are heard of, and do not hear each other
		higher := m
		if by.rank > m.rank {
			higher = by
		}
		s.execute(higher, fmt.Sprintf("the higher of the last two ranks, %d and %d, of which %d suspects the other: %s", min(m.rank, by.rank), max(m.rank, by.rank), by.rank, said.Why))
	}
}

// lastTwo tells whether two processes are the only ones left: of the view, if one
// is known, otherwise of all.
func (s *Server) lastTwo(a, b *member) bool {
	for _, m := range s.members {
		counts := s.awaited(m)
		if s.view != nil {
			counts = counts && s.view.Has(m.rank, m.incarnation)
		}
		if m != a && m != b && counts {
			return false
		}
	}
	return a != b
}

// execute fences a process that another one has the right to see dead. On another
// host its agent kills it, and tells when it is dead; if that takes too long, it is
// given up like any suspect.
func (s *Server) execute(m *member, why string) {
	if m.process != nil || s.cfg.Kill == nil {
		s.fence(m, why)
		return
	}
	s.noteFence(m, why)
	s.cfg.Kill(m.rank, m.incarnation, why)
}
