// Is a process alive? The question goes up to the lowest place held whose subtree holds the id, and down to the process
// itself, which says yes, or to one that knows it to be dead, which says no; the answer goes straight to the asker. That
// is at most 2(H−1) messages and one. A process passes on one question at a time and drops others, and dead processes
// drop theirs: an asker without an answer after a while asks again. A yes was true when it was given; a no is true for
// ever, unless it is about an id that no process had yet.

package membership

import "github.com/coppice-go/coppice/protocol"

// inquire passes on the question of another, then looks after its own.
func (l *Localized) inquire(s *LocalState, now protocol.Time) protocol.Action[LocalMessage] {
	if s.relay >= 0 {
		at, by := s.relay, s.relayFor
		s.relay, s.relayFor = -1, -1
		return l.ask(s, at, by)
	}
	if s.query < 0 {
		return protocol.Action[LocalMessage]{Kind: protocol.Idle}
	}
	if to, alive := l.route(s, s.query); to < 0 {
		s.known, s.alive = true, alive
	}
	switch {
	case s.known:
		m := localTold(LocalAnswer, s.query, s.alive)
		s.query = -1
		return protocol.Action[LocalMessage]{Kind: protocol.Deliver, Msg: m}
	case !s.queried || now >= s.askAgain:
		s.queried, s.askAgain = true, now+l.retry
		return l.ask(s, s.query, s.self)
	}
	return protocol.Action[LocalMessage]{Kind: protocol.Wait, At: s.askAgain}
}

// ask answers a question, or passes it on.
func (l *Localized) ask(s *LocalState, at, by protocol.Rank) protocol.Action[LocalMessage] {
	to, alive := l.route(s, at)
	if to >= 0 {
		return localSend(to, LocalMessage{Kind: LocalAsk, At: at, By: by})
	}
	return localSend(by, localTold(LocalTell, at, alive))
}

func localTold(kind LocalKind, at protocol.Rank, alive bool) LocalMessage {
	m := LocalMessage{Kind: kind, At: at}
	if alive {
		m.Size = 1
	}
	return m
}

// route returns a process that knows more about another one; −1: what is known here is all.
func (l *Localized) route(s *LocalState, at protocol.Rank) (to protocol.Rank, alive bool) {
	if at == s.self || at >= s.end() {
		return -1, at == s.self
	}
	i := l.entry(s, at)
	switch {
	case i < 0 && s.dead>>l.tree.level(at)&1 != 0, i >= 0 && s.low[i] > at:
		return -1, false
	case i >= l.slot(int(s.top)):
		return s.low[i], false
	default:
		return l.above(s), false
	}
}
