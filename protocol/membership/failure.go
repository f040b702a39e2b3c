package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// failure is what a process knows of another one that failed, or may have.
type failure struct {
	who     Member
	certain bool
	hearsay bool    // suspected by another process:
	by      Member  // this one
	blamed  bool    // it accused process by, which was alive; nothing else is known against it
	asked   uint8   // the force of the request for its end in this view
	will    *Letter // what it recorded last; nil: unknown

	since protocol.Time // when it became known, or the view in force did
	// Reports to the proposer.
	to   protocol.Rank // last notified, −1: none yet
	at   protocol.Time // when to report it, or to report it again
	wait protocol.Time // and how long after that
	seen bool          // the proposer has noted it
}

func (x *failure) sign(f fingerprint) fingerprint {
	f = f.member(x.who).flag(x.certain).flag(x.hearsay).with(uint64(x.asked)).flag(x.seen).flag(x.blamed).member(x.by).letter(x.will)
	return f.with(uint64(x.since)).with(uint64(uint32(x.to))).with(uint64(x.at)).with(uint64(x.wait))
}

// search returns the place of an incarnation among those that failed, and whether it is there.
func (s *State) search(m Member) (int, bool) {
	at, end := 0, len(s.failures)
	for at < end {
		mid := (at + end) / 2
		if who := s.failures[mid].who; who.ID < m.ID || who.ID == m.ID && who.Incarnation < m.Incarnation {
			at = mid + 1
		} else {
			end = mid
		}
	}
	return at, at < len(s.failures) && s.failures[at].who == m
}

// find returns what is known of the failure of an incarnation; nil: nothing.
func (s *State) find(m Member) *failure {
	if i, ok := s.search(m); ok {
		return &s.failures[i]
	}
	return nil
}

// fails reports whether this incarnation of a process has failed, or may have: itself, or a later one.
func (s *State) fails(m Member) bool { return len(s.failures) > 0 && s.failing(m) }

func (s *State) failing(m Member) bool {
	i, _ := s.search(m)
	return i < len(s.failures) && s.failures[i].who.ID == m.ID
}

// dead reports whether this incarnation of a process has certainly ended.
func (s *State) dead(m Member) bool {
	i, exact := s.search(m)
	if exact && !s.failures[i].certain {
		i++
		exact = false
	}
	return exact || i < len(s.failures) && s.failures[i].who.ID == m.ID
}

// testified reports whether this incarnation has certainly ended and its record is known.
func (s *State) testified(m Member) bool {
	f := s.find(m)
	return f != nil && f.certain && f.will != nil
}

// failed notes a failure.
func (p *Protocol) failed(s *State, now protocol.Time, x failure) {
	if s.stage == excluded || s.stage == inside && s.view.Past(x.who) { // it is removed already
		return
	}
	p.noteGathering(s, now)
	p.acquit(s, now, x.who)
	if f := s.find(x.who); f == nil {
		x.since, x.to, x.at, x.wait = now, nobody, now+p.cfg.Report, p.cfg.Retry
		i, _ := s.search(x.who)
		s.failures = slices.Insert(s.failures, i, x)
	} else {
		if x.certain && !f.certain { // worth another report
			f.to, f.seen, f.at = nobody, false, now+p.cfg.Report
		}
		f.certain, f.blamed = f.certain || x.certain, f.blamed && x.blamed
		if x.hearsay && !f.hearsay {
			f.hearsay, f.by = true, x.by
		}
		if f.will == nil {
			f.will = x.will
		}
	}
	s.joiners = slices.DeleteFunc(s.joiners, func(m Member) bool { return s.fails(m) })
	p.forsake(s)
	if s.stage == joining {
		if j := &s.join; j.asked.ID == x.who.ID { // it will not answer
			j.at = min(j.at, now)
		}
		p.inherit(s, now)
	}
}

// willed notes what a process, now dead, recorded last. Its Death notice follows.
func (p *Protocol) willed(s *State, now protocol.Time, who Member, will *Letter) {
	if who == s.self || s.stage == excluded {
		return
	}
	p.failed(s, now, failure{who: who, certain: true, will: will})
	p.read(s, now, will)
}

// read draws the conclusions from what a dead process recorded.
func (p *Protocol) read(s *State, now protocol.Time, will *Letter) {
	if will.Value == nil {
		return
	}
	if s.stage == inside && will.Value.Number == s.view.Number+1 {
		s.seen = max(s.seen, will.Ballot)
		if c := &s.campaign; c.deciding() && will.Ballot > c.ballot {
			s.campaign = campaign{}
		}
		return
	}
	p.learn(s, now, will.Base, false) // it took part in deciding what follows
}

// Heard notes a sign of life of a member, be it a message or another. What another process says of the member stands all
// the same: one of the two has to go. But a member that this process would follow is believed, and its accuser is the
// one to go.
func (p *Protocol) Heard(s *State, now protocol.Time, m Member) {
	p.begun(s, now, m)
	f := s.find(m)
	if f == nil || f.certain || f.hearsay && m.ID > s.self.ID {
		return
	}
	accuser := f.by
	s.failures = slices.DeleteFunc(s.failures, func(x failure) bool { return x.who == m })
	if c := &s.campaign; c.phase != resting { // it may answer now
		c.retryAt = now
	}
	if accuser != (Member{}) && accuser != s.self {
		p.failed(s, now, failure{who: accuser, hearsay: true, by: m, blamed: true})
	}
}

// acquit drops what is held against the accusers of a process that has failed after all: what was heard of it was old.
func (p *Protocol) acquit(s *State, now protocol.Time, failed Member) {
	was := len(s.failures)
	s.failures = slices.DeleteFunc(s.failures, func(f failure) bool { return f.blamed && f.by == failed })
	if c := &s.campaign; len(s.failures) < was && c.phase != resting {
		c.retryAt = now
	}
}

// report reports failures to the proposer.
func (p *Protocol) report(s *State, now protocol.Time) {
	if len(s.failures) == 0 {
		return
	}
	chief := p.chief(s)
	if chief == s.self {
		return
	}
	for i := range s.failures {
		f := &s.failures[i]
		if now < p.reportAt(s, f, chief) {
			continue
		}
		if f.to != chief.ID {
			f.wait = p.cfg.Retry
		}
		f.to, f.seen, f.at, f.wait = chief.ID, false, now+f.wait, 2*f.wait
		l := p.write(Letter{Kind: Failure, Who: f.who, Certain: f.certain, Number: s.view.Number})
		if f.will != nil {
			l.Willed, l.Base, l.Value, l.Ballot = true, f.will.Base, f.will.Value, f.will.Ballot
		}
		s.send(chief.ID, chief.Incarnation, l)
	}
}

// reportAt returns when to report a failure to the proposer.
func (p *Protocol) reportAt(s *State, f *failure, chief Member) protocol.Time {
	switch {
	case s.told || !s.view.Has(f.who), f.to == chief.ID && f.seen:
		return protocol.Never
	case s.value != nil && !s.value.Has(f.who) && !s.fails(s.proposer()):
		return protocol.Never // it is being done
	case f.to != nobody && f.to != chief.ID:
		return f.since + p.cfg.Report
	}
	return f.at
}

// proposer returns the member that proposed what was accepted.
func (s *State) proposer() Member {
	m, _ := s.view.Find(s.accepted.By())
	return m
}

func (p *Protocol) reportDue(s *State) protocol.Time {
	at := protocol.Never
	if len(s.failures) == 0 {
		return at
	}
	chief := p.chief(s)
	for i := range s.failures {
		if chief != s.self {
			at = min(at, p.reportAt(s, &s.failures[i], chief))
		}
	}
	return at
}

// reported handles another process's report of a failure.
func (p *Protocol) reported(s *State, now protocol.Time, from Member, l *Letter) {
	if s.stage == joining { // a view that it has not heard of has it as a member: the reporter knows that view
		s.send(from.ID, from.Incarnation, p.write(Letter{Kind: Join, Who: s.self}))
	}
	if s.stage != inside {
		return
	}
	s.send(from.ID, from.Incarnation, p.write(Letter{Kind: Noted, Who: l.Who}))
	switch {
	case l.Who == s.self || s.fails(from): // two that accuse each other: the first one is believed
	case l.Certain:
		var will *Letter
		if l.Willed {
			will = p.write(Letter{Kind: Will, Number: l.Number, Base: l.Base, Value: l.Value, Ballot: l.Ballot})
		}
		p.failed(s, now, failure{who: l.Who, certain: true, will: will})
		if will != nil {
			p.read(s, now, will)
		}
	default:
		p.failed(s, now, failure{who: l.Who, hearsay: true, by: from})
	}
}

// despair notifies the user if, after all patience, failed members are still in the view or the view is not open.
func (p *Protocol) despair(s *State, now protocol.Time) {
	if now < p.despairDue(s) {
		return
	}
	s.told = true
	s.deliver(p.write(Letter{Kind: NoQuorum, Number: s.view.Number, Base: s.view}))
}

func (p *Protocol) despairDue(s *State) protocol.Time {
	since := protocol.Never
	if !s.open {
		since = s.since
	}
	for i := range s.failures {
		if f := &s.failures[i]; f.since < since && s.view.Has(f.who) {
			since = f.since
		}
	}
	if s.told || since == protocol.Never {
		return protocol.Never
	}
	return p.patienceEnds(s, since, p.cfg.Patience)
}
