package control

import (
	"fmt"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/suspicion"
)

// fenceAsked kills a process for another one, which cannot continue while the suspect may be
// alive: rule 1 of the design. If a proposer holds promises of a majority of the view,
// nothing more is needed. Otherwise the coordinator decides by what it sees of the suspect: if the suspect is
// silent, and its death can be made certain, it is killed. With two processes left there
// is no majority without the other: if both are alive, and do not hear each other, the
// process of the higher rank is killed, so that not both die. s.mu is held.
func (s *Server) fenceAsked(c *session, said message) {
	m, by := s.members[said.Rank], c.member
	silent := s.silent(m)
	if !m.joined && s.awaited(m) && silent >= s.cfg.Silence/2 && (said.Quorum || !s.cfg.spread || s.lastTwo(m, by)) {
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
	case s.absent(m, by, silent):
		s.execute(m, fmt.Sprintf("silent for %s, asked for by rank %d: %s", seconds(silent), by.rank, said.Why))
	case !s.lastTwo(m, by):
		s.suspected(c, said)
	default: // the coordinator hears both, but they do not hear each other
		higher := m
		if by.rank > m.rank {
			higher = by
		}
		s.execute(higher, fmt.Sprintf("the higher of the last two ranks, %d and %d, of which %d suspects the other: %s", min(m.rank, by.rank), max(m.rank, by.rank), by.rank, said.Why))
	}
}

// absent reports whether a suspect shows no life here. Silence of a process on another
// host counts only if there is no other witness.
func (s *Server) absent(m, by *member, silent time.Duration) bool {
	if m.process == nil {
		return s.lastTwo(m, by) && silent >= s.cfg.Silence
	}
	if !s.lastTwo(m, by) { // as long as others may come back, the same evidence counts as for the guard
		silent = time.Duration(s.guard.Counted(protocol.Rank(m.rank)))
	}
	return !m.process.own() && silent >= s.cfg.Silence/2 && s.inspect(protocol.Rank(m.rank)) != suspicion.Working
}

// lastTwo reports whether two processes are the only ones left: of the view, if one
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

// execute fences a process for another one that has the right to see it dead. On another
// host its agent kills it, and reports when it is dead; if that takes too long, the coordinator
// gives up on the process like on any suspect.
func (s *Server) execute(m *member, why string) {
	if m.process != nil || s.cfg.Kill == nil {
		s.fence(m, why)
		return
	}
	s.noteFence(m, why)
	s.cfg.Kill(m.rank, m.incarnation, why)
}
