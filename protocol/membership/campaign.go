package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// campaign is a proposer's attempt to decide the next view, or to open the
// present one.
type campaign struct {
	phase    phase
	ballot   Ballot
	value    *View   // that is proposed
	best     Ballot  // the highest accepted ballot in a promise
	known    *View   // and its view
	asks     *Letter // the sweep whose answers count
	answered set     // ids that have answered in this phase
	attempt  uint32
	tries    uint8         // that did not reach all; from the second on, all are asked directly
	began    protocol.Time // when the phase began
	retryAt  protocol.Time
	wait     protocol.Time
}

type phase uint8

const (
	resting    phase = iota
	preparing        // asks for promises
	recording        // its own acceptance
	proposing        // asks for acceptances
	confirming       // the view is chosen: are all in it?
)

// asks returns the kind of letter that a phase sends.
func (f phase) asks() Kind {
	switch f {
	case preparing:
		return Prepare
	case confirming:
		return Confirm
	}
	return Propose
}

func (c *campaign) deciding() bool {
	return c.phase == preparing || c.phase == recording || c.phase == proposing
}

func (c *campaign) sign(f fingerprint) fingerprint {
	f = f.with(uint64(c.phase)<<32 | uint64(c.attempt)).with(uint64(c.tries)).with(uint64(c.ballot)).view(c.value).with(uint64(c.best)).view(c.known)
	for _, w := range c.answered {
		f = f.with(w)
	}
	return f.flag(c.asks != nil).with(uint64(len(c.answered))).with(uint64(c.began)).with(uint64(c.retryAt)).with(uint64(c.wait))
}

// chief returns the member that proposes: the lowest one that has not failed, as far as this process knows.
func (p *Protocol) chief(s *State) Member {
	for _, m := range s.view.Members {
		if m == s.self || !s.fails(m) {
			return m
		}
	}
	return s.self
}

// advance takes the campaign one step further, if this process is to propose; false: there is nothing to do now.
func (p *Protocol) advance(s *State, now protocol.Time) bool {
	c := &s.campaign
	// The proposer of a view opens it, even if the view has a member with a lower id.
	if p.chief(s) != s.self && (c.phase != confirming || s.anyFailed()) {
		if c.phase != resting {
			s.campaign = campaign{}
		}
		return false
	}
	switch c.phase {
	case resting:
		return p.start(s, now)
	case preparing:
		if p.quorum(s) {
			return p.takeOver(s, now)
		}
	case recording:
		if s.durable() {
			c.phase, c.began = proposing, now
			p.ask(s, now, false)
			return true
		}
		return false
	case proposing:
		if p.quorum(s) {
			p.choose(s, now)
			return true
		}
	case confirming:
		switch {
		case s.anyFailed(): // decide without them, and open that
			s.campaign = campaign{}
			return true
		case p.present(s):
			s.campaign = campaign{}
			parted := s.parted
			p.opened(s)
			s.route = p.route(s)
			p.passOn(s, p.write(Letter{Kind: Stable, Bits: p.bits, Number: s.view.Number, Base: s.view, Who: s.self, Route: s.route}), 0)
			for _, m := range parted {
				s.send(m.ID, m.Incarnation, p.write(Letter{Kind: Decided, Number: s.view.Number, Base: s.view, Open: true}))
			}
			return true
		}
	}
	return p.again(s, now)
}

// start begins a campaign if there is a reason.
func (p *Protocol) start(s *State, now protocol.Time) bool {
	if p.blocked(s) > now {
		return false
	}
	b, v := s.highest()
	switch fast := ballot(0, s.self.ID); {
	case v == nil && !s.anyFailed() && !s.open:
		s.campaign = campaign{phase: confirming, ballot: fast, answered: set(nil).add(s.self.ID), began: now}
		p.ask(s, now, false)
	case v == nil && !s.anyFailed() && len(s.joiners)+len(s.leavers) == 0 && s.balanced() == nil:
		return false
	case p.unasked(s) && b < fast:
		if v == nil {
			v = p.change(s)
		}
		p.propose(s, now, fast, v)
	default:
		next := ballot(max(s.seen, s.promised).Round()+1, s.self.ID)
		s.promised, s.seen = next, next
		s.campaign = campaign{phase: preparing, ballot: next, answered: set(nil).add(s.self.ID), began: now}
		p.ask(s, now, false)
	}
	return true
}

// blocked returns the time until which the process leaves proposing to another.
func (p *Protocol) blocked(s *State) protocol.Time {
	at := s.backoff
	if m, in := s.view.Find(s.holder); in && s.hold > at && !s.fails(m) && m != s.self {
		at = s.hold
	}
	return at
}

// unasked reports whether the process may use its ballot of round 0: see the package comment.
func (p *Protocol) unasked(s *State) bool {
	mine := ballot(0, s.self.ID)
	if s.promised >= mine || s.seen >= mine {
		return false
	}
	for _, m := range s.view.Members {
		if m.ID >= s.self.ID {
			break
		}
		if !s.testified(m) {
			return false
		}
	}
	return true
}

// highest returns what was accepted at the highest ballot, as far as this process and the records of dead ones say.
func (s *State) highest() (Ballot, *View) {
	b, v := s.accepted, s.value
	for i := range s.failures {
		f := &s.failures[i]
		if f.will != nil && f.will.Value != nil && f.will.Value.Number == s.view.Number+1 && s.view.Has(f.who) && f.will.Ballot > b {
			b, v = f.will.Ballot, f.will.Value
		}
	}
	return b, v
}

func (s *State) anyFailed() bool {
	return slices.ContainsFunc(s.failures, func(f failure) bool { return s.view.Has(f.who) })
}

// change returns the next view as this process would have it; nil: no change. A view that adds members removes none.
func (p *Protocol) change(s *State) *View {
	leaving := s.leaving()
	switch {
	case s.anyFailed() || slices.ContainsFunc(s.leavers, func(l leaver) bool { return l.free }):
		out := func(m Member) bool { return s.fails(m) || s.freed(m) }
		return s.view.without(out, p.cfg.Adopt, s.LimitOf, leaving)
	case len(s.joiners) > 0:
		return s.view.with(s.joiners, p.cfg.Adopt, leaving)
	case len(s.leavers) > 0:
		return s.view.announced(leaving)
	}
	return s.balanced()
}

// takeOver proposes the view that the promises leave no choice about, or else a change.
func (p *Protocol) takeOver(s *State, now protocol.Time) bool {
	c := &s.campaign
	b, v := s.highest()
	if c.best > b {
		v = c.known
	}
	if v == nil {
		v = p.change(s)
	}
	if v == nil { // the reason has gone
		s.campaign = campaign{}
		return true
	}
	p.propose(s, now, c.ballot, v)
	return true
}

// propose accepts a view, and proposes it once that is recorded.
func (p *Protocol) propose(s *State, now protocol.Time, b Ballot, v *View) {
	p.accept(s, b, s.view, v)
	s.campaign = campaign{
		phase: recording, ballot: b, value: v, attempt: s.campaign.attempt + 1,
		answered: set(nil).add(s.self.ID), began: now,
	}
}

// voters yields all members that are asked in this phase, in the order of their ids: those of the view in force and of
// the one that is proposed.
func (s *State) voters(yield func(Member) bool) {
	old, new := s.view.Members, []Member(nil)
	if c := &s.campaign; c.phase == recording || c.phase == proposing {
		new = c.value.Members
	}
	for len(old)+len(new) > 0 {
		var m Member
		if len(new) == 0 || len(old) > 0 && old[0].ID <= new[0].ID {
			m, old = old[0], old[1:]
		} else {
			m = new[0]
		}
		if len(new) > 0 && new[0].ID == m.ID {
			new = new[1:]
		}
		if !yield(m) {
			return
		}
	}
}

// ask sends a sweep to all that have not answered.
func (p *Protocol) ask(s *State, now protocol.Time, again bool) {
	c := &s.campaign
	if again {
		c.attempt++
		c.tries++
	} else {
		c.wait, c.tries = p.cfg.Retry, 0
	}
	c.retryAt = now + c.wait
	c.wait *= 2
	l := p.write(Letter{
		Kind: c.phase.asks(), Flat: c.tries > 1, Bits: p.bits, Attempt: c.attempt, Number: s.view.Number, Base: s.view,
		Ballot: c.ballot, Value: c.value, Who: s.self, Route: p.route(s),
	})
	c.asks = l
	p.spread(s, l, 0, s.self)
}

// quorum reports whether the answers are a quorum of the view in force.
func (p *Protocol) quorum(s *State) bool {
	return s.tally().quorum(p.cfg.MajorityOnly, s.arbitration == granted && s.campaign.answered.has(s.self.ID))
}

// choose puts the view that was proposed in force.
func (p *Protocol) choose(s *State, now protocol.Time) {
	c, w, base := s.campaign, s.sweep, s.view
	news := p.write(Letter{Kind: Decided, Number: c.value.Number, Base: c.value})
	if !c.value.Has(s.self) { // another process proposed it first; its members have to open it
		for m := range s.voters {
			if m != s.self && !s.dead(m) {
				s.send(m.ID, m.Incarnation, news)
			}
		}
		p.learn(s, now, c.value, false)
		return
	}
	var removed []Member
	for _, m := range base.Members {
		if !c.value.Has(m) && !s.dead(m) {
			removed = append(removed, m)
		}
	}
	p.install(s, now, c.value)
	if s.view != c.value {
		return
	}
	for _, m := range removed {
		s.send(m.ID, m.Incarnation, news)
	}
	s.sweep = w // answers that are still to come count
	s.campaign = campaign{
		phase: confirming, ballot: c.ballot, asks: c.asks, answered: c.answered, attempt: c.attempt,
		began: now, retryAt: c.retryAt, wait: c.wait, tries: c.tries,
	}
}

// present reports whether all members of the view in force that are not certainly dead are known to be in it.
func (p *Protocol) present(s *State) bool {
	return !slices.ContainsFunc(s.view.Members, func(m Member) bool { return !s.campaign.answered.has(m.ID) && !s.dead(m) })
}

// silent yields the members that are asked, have not answered and are not known to have failed.
func (s *State) silent(yield func(Member) bool) {
	for m := range s.voters {
		if !s.campaign.answered.has(m.ID) && !s.fails(m) && !yield(m) {
			return
		}
	}
}

// awaits reports whether there are any silent members.
func (s *State) awaits() bool {
	for range s.silent {
		return true
	}
	return false
}

// again asks the members that have not answered once more, suspects those that never do, and requests that suspects that
// stand in the way of a quorum are killed.
func (p *Protocol) again(s *State, now protocol.Time) bool {
	c := &s.campaign
	switch {
	case !s.awaits():
		if !p.arbitrate(s) {
			p.fence(s)
		}
		return false
	case now >= p.patienceEnds(s, c.began, p.patience(s)):
		for _, m := range slices.Collect(s.silent) {
			p.failed(s, now, failure{who: m})
		}
		return true
	case now < c.retryAt && (len(s.sweep.waiting) > 0 || s.sweep.letter != c.asks):
		return false
	}
	p.ask(s, now, true)
	return false
}

// fence requests the end of suspects without which there is no quorum. If the answers prevail, or if only two processes
// are left, that is an order with its proof (quorum.go); of the last two, the coordinator decides which one goes.
// Otherwise it is a wish: the coordinator kills a suspect only on its own evidence.
func (p *Protocol) fence(s *State) {
	if !s.campaign.deciding() || p.cfg.MajorityOnly {
		return
	}
	t := s.tally()
	kind := Wish
	if t.prevails() || t.pair() {
		kind = Fence
	}
	for i := range s.failures {
		f := &s.failures[i]
		if s.view.Has(f.who) && !f.certain && f.asked < kind.force() {
			f.asked = kind.force()
			s.work(p.proof(s, kind, f.who, t))
		}
	}
}

// force is how much a request to kill a process says.
func (k Kind) force() uint8 {
	switch k {
	case Wish:
		return 1
	case Fence:
		return 2
	}
	return 0
}

// rejected handles the notice that a higher ballot was promised.
func (p *Protocol) rejected(s *State, now protocol.Time, l *Letter) {
	c := &s.campaign
	if s.stage != inside || l.Number != s.view.Number || !c.deciding() || l.Asked != c.ballot {
		return
	}
	s.seen = max(s.seen, l.Ballot)
	s.rejects++
	jitter := protocol.Time(protocol.Below(protocol.Mix(s.seed^uint64(s.self.ID), uint64(s.rejects)), uint64(p.cfg.Retry)))
	s.backoff = now + p.cfg.Retry<<min(s.rejects-1, 5) + jitter
	s.campaign = campaign{}
}

func (p *Protocol) leadDue(s *State) protocol.Time {
	c := &s.campaign
	switch {
	case p.chief(s) != s.self && c.phase != confirming || c.phase == recording:
	case c.phase == resting:
		if at := p.blocked(s); at > 0 {
			if _, v := s.highest(); v != nil || s.anyFailed() || !s.open || len(s.joiners)+len(s.leavers) > 0 {
				return at
			}
		}
	case s.awaits():
		return min(c.retryAt, p.patienceEnds(s, c.began, p.patience(s)))
	}
	return protocol.Never
}
