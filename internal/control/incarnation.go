package control

import "github.com/coppice-go/coppice/internal/wire"

// Incarnations. A launcher counts the lives of a rank and gives each process its number. Without a launcher, a process joins
// without a number, and the coordinator chooses it: a process that was started again, with the same variables, is the next
// incarnation of its rank. Every process draws a random number when it begins, its life, and sends it in each handshake. So the
// coordinator can tell a process that comes back after a broken connection from another process in its place.
//
// The coordinator admits the next process when the previous one is dead, as far as is known: the kernel says so, a view has
// continued without it, or, on another host, its connection is broken. The last is a suspicion, on which the
// members of the view decide; until they have, the next process waits for a view to join.

// incarnationGap bounds the gap that a successor leaves between the latest incarnation of a rank that it knows and the first that it
// chooses. Its predecessor may have chosen numbers that no process has reported, and two processes must never have
// the same number.
const incarnationGap = 1 << 16

// incarnation returns the incarnation of a process that has proven the key. s.mu is held.
func (s *Server) incarnation(id wire.Identity, p *process) uint64 {
	m := s.members[id.From]
	switch {
	case id.Incarnation > 0:
		return id.Incarnation
	case m.joined && m.death == nil && m.life == id.Life && m.same(id, p): // it has not received its number
		return m.incarnation
	case s.cfg.heir == nil && m.incarnation == 0:
		return 1
	case s.cfg.heir == nil || m.numbered:
		return m.incarnation + 1
	}
	return max(m.incarnation, 1) + m.gap
}

// vacant reports whether another process may take the place of this one. counted: the coordinator counts
// the lives of the rank.
func (m *member) vacant(counted bool) bool {
	switch {
	case m.death != nil:
		return true
	case m.process != nil:
		return m.process.exited()
	case m.removed:
		return counted || !m.joined
	case m.joined:
		return counted && m.session == nil
	}
	return m.peer == nil
}

// replaced ends the life of a rank before that of another process, which has come. s.mu is held.
func (s *Server) replaced(m *member, next uint64) {
	const how = "another process has come in its place"
	switch {
	case m.death != nil:
	case m.process != nil:
		s.die(m, Death{Certain: true, How: m.how()})
	case m.joined || m.peer != nil:
		s.die(m, Death{How: how})
	case m.incarnation == 0 && m.rank < s.cfg.Size && next > 1:
		s.giveUp(m, "never joined: "+how)
	}
}
