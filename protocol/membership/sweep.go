package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// A sweep goes down the tree and comes up again. The tree is the radix tree of the places on the route, which the
// proposer chose and the letter carries, so its nodes never have more than a children. From view to view places stay, so
// that few links are new: the place of a leaf that has gone stays empty until a process joins, that of another node is
// taken by the last leaf, as in a heap. A node waits for all its children, then answers its parent and names those below
// that did not answer: usually none. What the tree loses, because a node on it fails, the proposer sends again, on a
// tree of those that did not answer; and if that is not enough, to each directly.

// sweep is the last one that a process took part in.
type sweep struct {
	letter  *Letter // that came down; nil: none
	parent  Member
	at      int     // own place on the route
	waiting []int32 // places of children that have not answered
	missing []protocol.Rank
	ballot  Ballot // the highest accepted here and below, for promises
	value   *View
	done    bool // answered
}

func (w *sweep) sign(f fingerprint) fingerprint {
	f = f.letter(w.letter).member(w.parent).with(uint64(w.at)).flag(w.done).with(uint64(w.ballot)).view(w.value)
	for _, c := range w.waiting {
		f = f.with(uint64(c))
	}
	return f.with(uint64(len(w.waiting))).ranks(w.missing)
}

// children calls f with the places of the children of a place.
func (l *Letter) children(at int, f func(child int)) {
	n := len(l.Route)
	if l.Flat {
		for c := 1; at == 0 && c < n; c++ {
			if l.Route[c] != gap {
				f(c)
			}
		}
		return
	}
	// topology.RadixTree: the i-th child of r at level ℓ is r + i·a^ℓ.
	level := 0
	for r := at; r > 0; level++ {
		r = l.parent(r)
	}
	step := 1 << (int(l.Bits) * level)
	for i := 1; i <= 1<<l.Bits && at+i*step < n; i++ {
		if l.Route[at+i*step] != gap { // no process is below an empty place
			f(at + i*step)
		}
	}
}

// leaf reports whether no process is below a place.
func (l *Letter) leaf(at int) bool {
	is := true
	l.children(at, func(int) { is = false })
	return is
}

// parent returns the place above one in the radix tree.
func (l *Letter) parent(at int) int {
	start, step := 0, 1 // of the level of at, and the number of places in it
	for at >= start+step {
		start += step
		step <<= l.Bits
	}
	step >>= l.Bits
	return start - step + (at-start)%step
}

// below appends the ids at a place and below it to list.
func (l *Letter) below(at int, list []protocol.Rank) []protocol.Rank {
	list = append(list, l.Route[at])
	l.children(at, func(c int) { list = l.below(c, list) })
	return list
}

// Children lists the children of a process in the tree on which the next sweep
// will go, if nothing fails but leaves.
func (p *Protocol) Children(s *State) (ids []protocol.Rank) {
	if s.stage != inside {
		return nil
	}
	l := &Letter{Route: p.places(s), Bits: p.bits}
	at := slices.Index(l.Route, s.self.ID)
	if at >= 0 {
		l.children(at, func(c int) { ids = append(ids, l.Route[c]) })
	}
	return ids
}

// Heir lists, for the process that would propose if the proposer died, the children of the proposer, which would then be
// its own; for other processes it lists none.
func (p *Protocol) Heir(s *State) (ids []protocol.Rank) {
	if s.stage != inside || len(s.view.Members) < 2 || s.view.Members[1] != s.self {
		return nil
	}
	l := &Letter{Route: p.places(s), Bits: p.bits}
	l.children(0, func(c int) {
		if l.Route[c] != s.self.ID {
			ids = append(ids, l.Route[c])
		}
	})
	return ids
}

// places returns the order of the last view that opened.
func (p *Protocol) places(s *State) []protocol.Rank {
	if s.route != nil {
		return s.route
	}
	return p.first
}

// gap stands for an empty place.
const gap protocol.Rank = -1

// route returns the way to the voters: this process first, then those that have not failed and have not answered, at the
// places that they had.
func (p *Protocol) route(s *State) []protocol.Rank {
	wanted := make(set, 0, 1)
	for m := range s.voters {
		if m.ID == s.self.ID || !s.fails(m) && !s.campaign.answered.has(m.ID) {
			wanted = wanted.add(m.ID)
		}
	}
	wanted = wanted.add(s.self.ID)
	places := p.places(s)
	l := Letter{Bits: p.bits, Route: make([]protocol.Rank, 0, len(places)+1)}
	for _, id := range places {
		if id == gap || !wanted.has(id) {
			id = gap
		} else {
			wanted.remove(id)
		}
		l.Route = append(l.Route, id)
	}
	l.settle(wanted.list(nil))
	first := slices.Index(l.Route, s.self.ID)
	l.Route[0], l.Route[first] = l.Route[first], l.Route[0]
	l.close()
	return l.Route
}

// settle gives places to newcomers, empty ones first.
func (l *Letter) settle(newcomers []protocol.Rank) {
	for i := 0; i < len(l.Route) && len(newcomers) > 0; i++ {
		if l.Route[i] == gap {
			l.Route[i], newcomers = newcomers[0], newcomers[1:]
		}
	}
	l.Route = append(l.Route, newcomers...)
}

// close fills empty places that have processes below them with the last leaves.
func (l *Letter) close() {
	for i := len(l.Route) - 1; i >= 0; i-- { // from below, so that what is below a place is settled
		for l.Route[len(l.Route)-1] == gap {
			l.Route = l.Route[:len(l.Route)-1]
		}
		if last := len(l.Route) - 1; i < last && l.Route[i] == gap && !l.leaf(i) {
			l.Route[i] = l.Route[last]
			l.Route = l.Route[:last]
		}
	}
}

// at reports whether an id is at a place below the first.
func (l *Letter) at(place int, id protocol.Rank) bool {
	return place > 0 && place < len(l.Route) && l.Route[place] == id
}

// member returns the incarnation of an id on the route.
func (l *Letter) member(id protocol.Rank) Member {
	if l.Value != nil {
		if m, ok := l.Value.Find(id); ok {
			return m
		}
	}
	m, ok := l.Base.Find(id)
	if !ok {
		m = l.Who // a proposer that is in neither
	}
	return m
}

// descend takes part in a sweep that comes down.
func (p *Protocol) descend(s *State, now protocol.Time, from protocol.Rank, m Message) {
	l := m.Letter
	at := int(m.At)
	if !l.at(at, s.self.ID) || !p.follow(s, now, l) {
		return
	}
	p.Heard(s, now, l.Who) // whichever process passed it on
	if c := &s.campaign; l.Kind == Confirm && c.phase == confirming {
		if s.self.ID < l.Who.ID {
			return // the other one will yield
		}
		s.campaign = campaign{}
	}
	if l.Kind != Confirm {
		if l.Ballot < s.promised {
			s.send(l.Who.ID, l.Who.Incarnation, p.write(Letter{Kind: Reject, Number: l.Base.Number, Asked: l.Ballot, Ballot: s.promised}))
			return
		}
		s.promised, s.seen = l.Ballot, max(s.seen, l.Ballot)
		if c := &s.campaign; c.deciding() && c.ballot < l.Ballot {
			s.campaign = campaign{}
		}
	}
	s.hold, s.holder = now+2*p.cfg.Retry, l.Who.ID
	p.spread(s, l, at, Member{from, m.From})
	if l.Kind == Propose {
		p.accept(s, l.Ballot, l.Base, l.Value)
	}
}

// follow brings the process to the view that a sweep builds on, and reports whether it can take part.
func (p *Protocol) follow(s *State, now protocol.Time, l *Letter) bool {
	p.learn(s, now, l.Base, false)
	switch s.stage {
	case joining:
		return l.Kind == Propose && l.Value.Has(s.self) && p.courted(s, l)
	case inside:
		if s.view.Same(l.Base) {
			return true
		}
	}
	s.send(l.Who.ID, l.Who.Incarnation, p.write(Letter{Kind: Decided, Number: s.view.Number, Base: s.view, Open: s.Open()}))
	return false
}

// spread sends a letter on to the children of a place, and begins to wait for
// them.
func (p *Protocol) spread(s *State, l *Letter, at int, parent Member) {
	s.sweep = sweep{letter: l, at: at, parent: parent, ballot: s.accepted, value: s.value, waiting: s.sweep.waiting[:0]}
	l.children(at, func(c int) {
		m := l.member(l.Route[c])
		if s.fails(m) {
			s.sweep.missing = l.below(c, s.sweep.missing)
			return
		}
		s.sweep.waiting = append(s.sweep.waiting, int32(c))
		s.sendAt(m.ID, m.Incarnation, l, c)
	})
}

// climb answers the parent once the children have answered and the process's own acceptance is recorded.
func (p *Protocol) climb(s *State) {
	w := &s.sweep
	if w.letter == nil || w.at == 0 || w.done || len(w.waiting) > 0 || w.letter.Kind == Propose && !s.durable() {
		return
	}
	w.done = true
	l := w.letter
	up := p.write(Letter{Kind: l.Kind.answer(), Number: l.Base.Number, Attempt: l.Attempt, Asked: l.Ballot, Missing: w.missing})
	if l.Kind == Prepare {
		up.Ballot, up.Value = w.ballot, w.value
	}
	s.sendAt(w.parent.ID, w.parent.Incarnation, up, w.at)
}

// ascend handles an answer of a child.
func (p *Protocol) ascend(s *State, from protocol.Rank, m Message) {
	w, l, at := &s.sweep, m.Letter, int(m.At)
	if w.letter == nil || w.letter.Kind.answer() != l.Kind || w.letter.Base.Number != l.Number ||
		w.letter.Ballot != l.Asked || w.letter.Attempt != l.Attempt {
		return // of an earlier one
	}
	i := slices.Index(w.waiting, int32(at))
	if i < 0 || !w.letter.at(at, from) {
		return
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	w.missing = append(w.missing[:len(w.missing):len(w.missing)], l.Missing...)
	if l.Kind == Promise && l.Ballot > w.ballot {
		w.ballot, w.value = l.Ballot, l.Value
	}
	if c := &s.campaign; c.asks == w.letter {
		if w.ballot > c.best && l.Kind == Promise {
			c.best, c.known = w.ballot, w.value
		}
		c.answered = c.answered.with(w.letter.below(at, nil), l.Missing)
	}
}

// forsake stops waiting for children that have failed.
func (p *Protocol) forsake(s *State) {
	w := &s.sweep
	if w.letter == nil || len(w.waiting) == 0 {
		return
	}
	var waiting []int32
	for _, c := range w.waiting {
		if s.fails(w.letter.member(w.letter.Route[c])) {
			w.missing = w.letter.below(int(c), w.missing[:len(w.missing):len(w.missing)])
		} else {
			waiting = append(waiting, c)
		}
	}
	w.waiting = waiting
}

// stable handles the notice that a view is open.
func (p *Protocol) stable(s *State, now protocol.Time, m Message) {
	l := m.Letter
	p.learn(s, now, l.Base, true)
	if l.at(int(m.At), s.self.ID) && s.stage == inside && s.view.Same(l.Base) {
		s.route = l.Route
		p.passOn(s, l, int(m.At))
	}
}

// passOn sends the notice that a view is open to the children of a place, and past a dead child to the children of that.
func (p *Protocol) passOn(s *State, l *Letter, at int) {
	l.children(at, func(c int) {
		m := l.member(l.Route[c])
		if s.dead(m) {
			p.passOn(s, l, c)
			return
		}
		s.sendAt(m.ID, m.Incarnation, l, c)
	})
}

// learn handles the news that a view is chosen, and perhaps open.
func (p *Protocol) learn(s *State, now protocol.Time, v *View, open bool) {
	switch {
	case s.stage == outside || s.stage == excluded || v == nil:
	case s.stage == inside && v.Number < s.view.Number:
	case s.stage == inside && v.Number == s.view.Number:
		if open && v.Same(s.view) {
			p.opened(s)
		}
	case v.Has(s.self):
		p.install(s, now, v)
		if open && v.Same(s.view) {
			p.opened(s)
		}
	case s.stage == joining && v.Last(s.self.ID) < s.self.Incarnation:
		if s.join.view == nil || v.Number > s.join.view.Number {
			p.noteGathering(s, now)
			s.join.view = v // its members are the ones to ask
		}
	default:
		s.stage, s.view, s.open, s.campaign, s.sweep = excluded, v, false, campaign{}, sweep{}
		if s.leave.free > 0 && !open {
			l := &s.leave
			l.lingers, l.at, l.wait, l.until = true, now, p.cfg.Retry, now+2*p.cfg.Retry
			return
		}
		p.part(s)
	}
}

// opened makes the view in force open.
func (p *Protocol) opened(s *State) {
	if s.open {
		return
	}
	s.open, s.told, s.parted = true, false, nil
	s.deliver(p.write(Letter{Kind: Opened, Number: s.view.Number, Base: s.view}))
}

// install makes a chosen view the one in force.
func (p *Protocol) install(s *State, now protocol.Time, v *View) {
	p.stayLeaving(s, now, v)
	s.parted = append(slices.Clip(s.parted), v.parted(s.view)...)
	s.stage, s.view, s.open, s.since = inside, v, false, now
	s.promised, s.accepted, s.value, s.seen = 0, 0, nil, 0
	s.arbitration = unasked
	s.hold, s.backoff, s.rejects = 0, 0, 0
	s.campaign, s.sweep, s.join = campaign{}, sweep{}, joinState{}
	s.joiners = slices.DeleteFunc(s.joiners, func(m Member) bool { return v.Last(m.ID) >= m.Incarnation })
	s.forgetLimits()
	s.wish = 0
	s.failures = slices.DeleteFunc(s.failures, func(f failure) bool {
		return v.Past(f.who) ||
			f.blamed && !v.Has(f.by) // one of the two had to go, and has
	})
	for i := range s.failures {
		f := &s.failures[i]
		f.since, f.to, f.at, f.wait, f.seen, f.asked = now, nobody, now+p.cfg.Report, p.cfg.Retry, false, 0
	}
	for _, m := range slices.Clone(s.joiners) { // it asked before an earlier incarnation was a member
		if earlier, in := v.Find(m.ID); in {
			p.failed(s, now, failure{who: earlier, hearsay: true})
		}
	}
	for _, f := range slices.Clone(s.failures) { // records of dead processes may say more now
		if f.will != nil && s.view == v {
			p.read(s, now, f.will)
		}
	}
}
