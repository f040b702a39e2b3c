package control

import "github.com/coppice-go/coppice/internal/wire"

// Incarnations. A launcher counts the lives of a rank and tells each process its number. Where nobody does, a process comes
// without one, and the coordinator chooses it: a process that was started again, with the same variables, is the next
// incarnation of its rank. Every process draws a number when it begins, its life, and says it in each handshake: so the
// coordinator tells one that comes back after a broken connection from another one in its place.
//
// The next process is let in when the one before is dead, as far as anybody knows: the kernel says so, a view has gone
// on without it, or, on another host, its connection is broken. The last is a suspicion, on which the
// members of the view decide; until they have, the next process waits for a view to join.

// incarnationGap bounds by how much the number that a coordinator chooses first for a rank is above the latest it knows, if
// it has taken another's place: that one may have given numbers of which nobody has told, and one number must never
// be that of two processes.
const incarnationGap = 1 << 16

// incarnation is the one as which a process comes that has proven the key. s.mu is held.
func (s *Server) incarnation(id wire.Identity, p *process) uint64 {
	m := s.members[id.From]
	switch {
	case id.Incarnation > 0:
		return id.Incarnation
	case m.joined && m.death == nil && m.life == id.Life && m.same(id, p): // it has not heard its number
		return m.incarnation
	case s.cfg.heir == nil && m.incarnation == 0:
		return 1
	case s.cfg.heir == nil || m.numbered:
		return m.incarnation + 1
	}
	return max(m.incarnation, 1) + m.gap
}

// vacant reports whether another process may come in the place of this one. counted: it is the coordinator that counts
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
