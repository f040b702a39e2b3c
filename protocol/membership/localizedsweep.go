// The sweeps of localized views. A message says which place its receiver is to cover; the receiver covers the entries of
// its table from that level on, each through the lowest id there that it does not know to be dead, and answers when all
// have answered. If one of these dies meanwhile, the receiver asks the next id of its entry for all of the entry: those
// below answer again, at once. A death never restarts a sweep, unless the proposer died.

package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// proposed handles a proposal.
func (l *Localized) proposed(s *LocalState, from protocol.Rank, m *LocalMessage) {
	region := l.tree.level(m.At)
	switch {
	case m.By < s.ballot || m.By == s.ballot && m.Number < s.number:
		return // the proposer is dead, or has gone on
	case m.By == s.ballot && m.Number == s.number:
		s.askedAgain(from, region)
	default:
		l.accept(s, from, m)
	}
	l.hold(s, int(s.region))
}

// askedAgain handles a proposal that the process already has, from another asker. An asker that asks to cover more knows
// that the one that asked for less is dead; of two that ask for the same, the higher stands in for the lower.
func (s *LocalState) askedAgain(from protocol.Rank, region int) {
	if !s.proposing || region > int(s.region) || region == int(s.region) && from <= s.asker {
		return
	}
	s.asker, s.region, s.answered = from, uint8(region), false
}

// accept accepts a new proposal. A proposal of the next view says that the view before is stable: all its members have
// accepted it. A later proposer may be one view behind, and propose that number again. Then the view beyond is void: no
// process has opened it without the later proposer's acceptance.
func (l *Localized) accept(s *LocalState, from protocol.Rank, m *LocalMessage) {
	switch {
	case s.self >= m.Base && !s.settled: // it joins with this view
		s.open, s.delivered, s.lastSize = m.Number-1, m.Number-1, m.Size
	case m.Number > s.number:
		l.opens(s, m.Size)
	}
	s.number, s.member = m.Number, true
	s.content[s.number&1] = localContent{m.Changes, m.Base, m.End, m.N}
	l.start(s, m.By, from, l.tree.level(m.At))
}

// start begins the first sweep of the latest view.
func (l *Localized) start(s *LocalState, ballot, asker protocol.Rank, region int) {
	s.ballot, s.asker, s.region = ballot, asker, uint8(region)
	s.proposing, s.answered, s.vouched, s.vouches = true, false, false, false
	s.sent, s.acked, s.told, s.toldDead, s.size = 0, 0, 0, 0, 1
	if s.delivered+1 >= s.number {
		s.content[(s.number+1)&1].n = 0
	}
	c := &s.content[s.number&1]
	l.heed(s, c)
}

// opens notes that the latest view accepted is stable.
func (l *Localized) opens(s *LocalState, size protocol.Rank) {
	if s.open == s.number {
		return
	}
	s.open, s.lastSize = s.number, size
	l.apply(s)
	if !s.settled {
		s.settled, s.vouches = true, s.answered && !s.vouched
	}
}

// opened returns the next view for the user.
func (s *LocalState) opened() LocalMessage {
	s.delivered++
	c := &s.content[s.delivered&1]
	m := LocalMessage{
		Kind: LocalOpened, Number: s.delivered,
		Changes: c.changes, N: c.n, Base: c.base, End: c.end, Size: s.lastSize,
	}
	if s.delivered < s.number {
		c.n = 0 // from now on it gathers
	}
	return m
}

// accepted handles the answer for an entry. The answer of a process known to be dead is true, but the process asked in
// its place will answer too, with what it knows for the next view.
func (l *Localized) accepted(s *LocalState, from protocol.Rank, m *LocalMessage) {
	if m.Number != s.number || m.By != s.ballot || !s.proposing {
		return
	}
	i := l.entry(s, m.At)
	if i < 0 || from != s.low[i] || m.At != l.place(s, i) {
		return
	}
	if s.acked>>i&1 == 0 {
		s.acked |= 1 << i
		s.size += m.Size
		s.gather(m.Changes[:m.N])
	}
	if m.Base > 0 && !s.vouched {
		s.vouched, s.vouches = true, s.answered && !s.settled
	}
}

// stable handles the notice. After a late one, of an earlier proposer, the process still answers what the present
// proposer asked.
func (l *Localized) stable(s *LocalState, m *LocalMessage) {
	if m.Number != s.number {
		return
	}
	l.opens(s, m.Size)
	if m.By == s.ballot && s.proposing {
		s.proposing, s.sent = false, 0
		s.region = min(s.region, uint8(l.tree.level(m.At)))
		l.hold(s, int(s.region))
	}
}

// gather keeps changes for the next view, as far as there is room; a process whose changes find none reports them in its
// next acceptance.
func (s *LocalState) gather(changes []LocalChange) {
	if s.delivered+1 < s.number {
		return // the view before takes its place; only a proposer gets changes so early
	}
	for _, c := range changes {
		s.content[(s.number+1)&1].add(c)
	}
}

// add adds a change, unless there is no room.
func (c *localContent) add(change LocalChange) bool {
	for i := range c.changes[:c.n] {
		if c.changes[i].At() == change.At() {
			c.changes[i] = min(c.changes[i], change) // all rather than one
			return true
		}
	}
	if c.n == localChanges {
		return false
	}
	c.changes[c.n] = change
	c.n++
	return true
}

// lead does what a root does besides sending, and reports whether a view has opened. A root that is not itself known to
// be in an open view needs a process that is: it may have accepted a view that its proposer did not live to finish, and
// that another proposer finished otherwise.
func (l *Localized) lead(s *LocalState) bool {
	for {
		switch mine := s.ballot == s.self; {
		case mine && s.proposing:
			if !l.covered(s) || !s.vouched && !s.settled {
				return false
			}
			s.proposing, s.sent = false, 0
			if s.open < s.number {
				l.opens(s, s.size)
				return true
			}
		case s.open < s.number: // what a dead proposer left
			l.start(s, s.self, -1, 0)
		case !l.propose(s):
			return false
		}
	}
}

// propose begins the next view, if there is anything to change.
func (l *Localized) propose(s *LocalState) bool {
	next, end := &s.content[(s.number+1)&1], s.end()
	if s.ballot != s.self {
		// It is dead, and the process that holds its place may have reported that only to it. It proposed the latest
		// view, so no view has removed it.
		next.add(LocalChange(s.ballot))
	}
	l.deaths(s, next.add)
	if next.n == 0 && s.asked <= end {
		return false
	}
	next.base, next.end = end, max(end, s.asked)
	s.number++
	l.start(s, s.self, -1, 0)
	return true
}

// covered reports whether all entries that must accept have accepted.
func (l *Localized) covered(s *LocalState) bool {
	for i, end := l.slot(int(s.region)), s.end(); i < l.slots(s); i++ {
		if s.low[i] < end && s.acked>>i&1 == 0 {
			return false
		}
	}
	return true
}

// sweep returns what the present sweep has to send next.
func (l *Localized) sweep(s *LocalState) (to protocol.Rank, m LocalMessage, ok bool) {
	skip := s.sent
	if s.proposing {
		skip |= s.acked
	}
	for i, end := l.slot(int(s.region)), s.end(); i < l.slots(s); i++ {
		if s.low[i] < end && skip>>i&1 == 0 {
			s.sent |= 1 << i
			return s.low[i], s.down(l.place(s, i)), true
		}
	}
	if s.proposing && !s.answered && s.asker >= 0 && l.covered(s) {
		s.answered, s.vouches = true, false
		return s.asker, l.answer(s), true
	}
	if s.proposing && s.vouches {
		s.vouches = false
		return s.asker, LocalMessage{Kind: LocalAccept, Number: s.number, By: s.ballot, At: l.tree.ancestor(s.self, int(s.region)), Base: 1}, true
	}
	return 0, LocalMessage{}, false
}

// down returns the message to the process that is to cover a place.
func (s *LocalState) down(at protocol.Rank) LocalMessage {
	m := LocalMessage{Kind: LocalStable, Number: s.number, By: s.ballot, At: at, Size: s.lastSize}
	if s.proposing {
		c := &s.content[s.number&1]
		m.Kind, m.Changes, m.N, m.Base, m.End = LocalPropose, c.changes, c.n, c.base, c.end
	}
	return m
}

// answer returns the acceptance for the place to cover, with all that is known for the next view.
func (l *Localized) answer(s *LocalState) LocalMessage {
	next := &s.content[(s.number+1)&1]
	l.deaths(s, next.add)
	m := LocalMessage{
		Kind: LocalAccept, Number: s.number, By: s.ballot,
		At: l.tree.ancestor(s.self, int(s.region)), Size: s.size, Changes: next.changes, N: next.n,
	}
	if s.vouched || s.settled {
		m.Base = 1
	}
	return m
}

// report returns the deaths that no acceptance will report, for the proposer. If the proposer is dead itself, the next
// one will ask for acceptances.
func (l *Localized) report(s *LocalState) (LocalMessage, bool) {
	if s.top == 0 || s.proposing && !s.answered {
		return LocalMessage{}, false
	}
	var c localContent
	l.deaths(s, c.add)
	return LocalMessage{Kind: LocalReport, Number: s.number, By: s.ballot, Changes: c.changes, N: c.n}, c.n > 0
}

// deaths lists the deaths that the process has to report, once a sweep: of processes whose places it holds, and of
// subtrees beside these in which no process lives. If deaths end, every dead process is reported by some process: take
// the highest place above it whose subtree is dead, and the process that holds the place above that; if there is none,
// the process that holds its own.
func (l *Localized) deaths(s *LocalState, add func(LocalChange) bool) {
	for level := int(s.top); level < int(s.level); level++ {
		if (s.removed|s.toldDead)>>level&1 != 0 {
			continue
		}
		c := LocalChange(l.tree.ancestor(s.self, level))
		if s.pending(c) || add(c) {
			s.toldDead |= 1 << level
		}
	}
	for i, end := l.slot(int(s.top)), s.end(); i < l.slots(s); i++ {
		if s.low[i] < end || s.told>>i&1 != 0 {
			continue
		}
		at := l.place(s, i)
		if l.tree.from(at, l.cleaned(s, i)) >= end || add(localAll(at)) {
			s.told |= 1 << i
		}
	}
}

// pending reports whether the latest view, open or not, removes a single process.
func (s *LocalState) pending(c LocalChange) bool {
	latest := &s.content[s.number&1]
	return slices.ContainsFunc(latest.changes[:latest.n], func(p LocalChange) bool { return p.At() == c.At() })
}
