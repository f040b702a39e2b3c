package membership

import (
	"cmp"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// A process joins by asking a member, the lowest it knows, then the next, until a view has it. The member passes the
// request on to the proposer. A process that was a member before comes back under its old id with a higher incarnation;
// if its earlier incarnation is still a member, that one is removed first.

// joinState is the state of a process that asks to join.
type joinState struct {
	at    protocol.Time // when to ask the next
	began protocol.Time
	next  int    // place of the next in the list
	asked Member // the last
	view  *View  // the last it heard of; nil: the first
	base  *View  // of what it accepted
}

// beginJoin begins to ask.
func (p *Protocol) beginJoin(s *State, now protocol.Time, incarnation uint32) {
	if s.stage != outside && incarnation <= s.self.Incarnation || incarnation == 0 {
		return
	}
	*s = State{
		self: Member{s.self.ID, incarnation}, seed: s.seed, stage: joining, came: s.came, failures: s.failures, works: s.works[:0], out: s.out[:0],
		join: joinState{at: now, began: now},
	}
}

// contacts returns the members to ask. A view that the process has accepted may be in force by now, and the members of
// the view before silent.
func (p *Protocol) contacts(s *State) []Member {
	v := cmp.Or(s.join.view, p.cfg.First)
	if s.value != nil && s.value.Number > v.Number {
		v = s.value
	}
	return v.Members
}

// join asks the next member.
func (p *Protocol) join(s *State, now protocol.Time) {
	p.climb(s)
	j := &s.join
	if s.told || now < j.at {
		return
	}
	until := p.patienceEnds(s, j.began, p.cfg.Patience)
	if now >= until {
		s.told = true
		s.deliver(p.write(Letter{Kind: NoQuorum}))
		return
	}
	all := p.contacts(s)
	for range all {
		m := all[j.next%len(all)]
		j.next++
		if m.ID != s.self.ID && !s.dead(m) {
			s.send(m.ID, 0, p.write(Letter{Kind: Join, Who: s.self}))
			j.asked = m
			break
		}
	}
	j.at = min(now+p.cfg.Retry, until)
}

func (p *Protocol) joinDue(s *State) protocol.Time {
	if s.told {
		return protocol.Never
	}
	return s.join.at
}

// asked handles the request of a process to join.
func (p *Protocol) asked(s *State, now protocol.Time, who Member) {
	if s.stage != inside || s.fails(who) {
		return
	}
	if s.view.Last(who.ID) >= who.Incarnation { // it is a member, or removed for good
		s.send(who.ID, who.Incarnation, p.write(Letter{Kind: Decided, Number: s.view.Number, Base: s.view, Open: s.open}))
		return
	}
	if earlier, in := s.view.Find(who.ID); in {
		p.failed(s, now, failure{who: earlier, hearsay: true})
	}
	if chief := p.chief(s); chief != s.self {
		s.send(chief.ID, chief.Incarnation, p.write(Letter{Kind: Join, Who: who}))
		return
	}
	s.joiners = slices.DeleteFunc(slices.Clone(s.joiners), func(m Member) bool { return m.ID == who.ID && m.Incarnation < who.Incarnation })
	if i, has := slices.BinarySearchFunc(s.joiners, who, byID); !has {
		s.joiners = slices.Insert(s.joiners, i, who)
	}
}

// courted prepares a joiner for a proposal that has it as a member, and reports whether that is news.
func (p *Protocol) courted(s *State, l *Letter) bool {
	if s.value != nil && s.value.Number > l.Value.Number {
		return false
	}
	if s.value != nil && s.value.Number < l.Value.Number {
		s.promised, s.accepted, s.value = 0, 0, nil
	}
	s.join.base = l.Base
	return true
}

// inherit lets a joiner that was accepted go on alone if all that could decide have died: what they recorded at the
// highest ballot is what they decided. But one that recorded something beyond that view has proved which view was
// chosen, and its record no longer says what it accepted then: read draws the conclusion.
func (p *Protocol) inherit(s *State, now protocol.Time) {
	base := s.join.base
	if base == nil || s.value == nil {
		return
	}
	b, v := s.accepted, s.value
	for _, m := range base.Members {
		if !s.testified(m) {
			return
		}
		switch w := s.find(m).will; {
		case w.Value == nil || w.Value.Number <= base.Number:
		case w.Value.Number > base.Number+1:
			return
		case w.Ballot > b:
			b, v = w.Ballot, w.Value
		}
	}
	p.learn(s, now, v, false)
}
