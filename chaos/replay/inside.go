package replay

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/ending"
	"github.com/coppice-go/coppice/protocol/membership"
)

// A coordinator that is part of a process (Config.Inside) dies with that process. Its holder is the lowest
// member of a view, and every process that opens a view tells its holder what it told the one before: that
// its tasks have returned, and that it knows that the job is over. So there may be two holders at once, of
// which one is behind.

// inside is the part of a process in the end of the job: its own and, if it holds the coordinator, the
// coordinator's.
type inside struct {
	job     ending.Job          // what this process knows of the end as the holder of the coordinator, or as the next one
	process ending.Process      // what it knows itself
	over    []membership.Member // processes that have been sent Over
	known   []membership.Member // processes that have been sent Over with allKnow
	leave   []membership.Member // processes that have been sent End
	answers []membership.Member // holders that wait for the answer that this process knows of the end
	greets  []membership.Member // processes that want to join, and first learn that the job is over
	told    uint64              // the view whose holder has got the message that this process knows of the end
	end     uint64              // the view in which the job was over, if the process has left or is about to; 0: it stays
	said    bool                // that it leaves
}

// silence is how long a coordinator waits for processes that do not answer that they know: longer than views
// take to remove them.
const silence = 3000

// reset resets the part for a new life of its process.
func (e *inside) reset(first *membership.View) {
	*e = inside{job: e.job, over: e.over[:0], known: e.known[:0], leave: e.leave[:0], answers: e.answers[:0], greets: e.greets[:0]}
	e.job.Reset(first)
	e.job.Inside(silence)
}

// KnowsOver returns the view in which the job was over, as far as the process knows; 0: it does not know it
// to be over.
func (s *State) KnowsOver() uint64 { return s.inside.process.Over() }

// Sure reports whether the process knows that all processes know that the job is over.
func (s *State) Sure() bool { return s.inside.process.Sure() > 0 }

// Leaves returns the view in which the job was over for a process that leaves successfully; 0: it does not
// leave.
func (s *State) Leaves() uint64 { return s.inside.end }

// Telling reports whether the process, as the coordinator, has told processes that the job is over, and
// whether it has told any to leave.
func (s *State) Telling() (over, leave bool) { return len(s.inside.over) > 0, len(s.inside.leave) > 0 }

// holder returns the member of the view that has the coordinator.
func (s *State) holder() membership.Member { return s.view.Members[0] }

// concernsEnd reports whether a message is about the end.
func (k Kind) concernsEnd() bool { return k == Returned || k == Over || k == Knows || k == End }

// endCame handles a message about the end. It stays true when its sender is gone.
func (s *State) endCame(from membership.Member, m Message) {
	e := &s.inside
	if m.Letter.To != 0 && m.Letter.To != s.members.Self().Incarnation {
		return
	}
	switch m.Kind {
	case Returned:
		e.returned(from, m.Letter.Base)
	case Over:
		if s.over == nil { // otherwise it has ended, with an error
			s.hears(m.View, m.Number == allKnow)
			e.answers = append(e.answers, from)
		}
	case Knows:
		if e.process.Over() == 0 && e.job.Verdict() != ending.Over {
			s.seen |= ToldByOther
		}
		if m.Letter.Base != nil {
			e.job.Viewed(m.Letter.Base)
		}
		e.job.Learn(m.View)
		if e.job.Knows(from); m.Number == allKnow {
			e.job.Sure(from)
		}
	case End:
		e.end = m.View
	}
}

// joinCame records a process that wants to join, and reports whether the request has to wait until that
// process knows that the job is over: real processes come to the coordinator first, which tells them.
func (e *inside) joinCame(who membership.Member) (waits bool) {
	e.job.Joined(who)
	if e.process.Over() == 0 || e.job.Aware(who) {
		return false
	}
	e.greets = append(e.greets, who)
	return true
}

// returned records that the tasks of a process have returned in a view.
func (e *inside) returned(m membership.Member, v *membership.View) {
	e.job.Viewed(v)
	e.job.Returned(m, v.Number)
}

// finish returns the process's next action about the end; Idle: none.
func (j *Job) finish(s *State) protocol.Action[Message] {
	e, self := &s.inside, s.members.Self()
	if len(e.answers) > 0 {
		to := pop(&e.answers)
		if s.view != nil && to == s.holder() {
			e.told = s.view.Number
		}
		return s.saysEnd(Knows, to, e.process.Over())
	}
	if len(e.greets) > 0 {
		return s.saysEnd(Over, pop(&e.greets), e.process.Over())
	}
	if s.view == nil {
		return protocol.Action[Message]{Kind: protocol.Idle}
	}
	e.job.Viewed(s.view)
	if over := e.process.Over(); over > 0 && e.told < s.view.Number {
		if e.told = s.view.Number; s.holder() != self {
			return s.saysEnd(Knows, s.holder(), over)
		}
		e.job.Learn(over)
		e.job.Knows(self)
		if e.process.Sure() > 0 {
			e.job.Sure(self)
		}
	}
	if s.holder() != self {
		return protocol.Action[Message]{Kind: protocol.Idle}
	}
	if e.job.Verdict() != ending.Over {
		return protocol.Action[Message]{Kind: protocol.Idle}
	}
	step := e.job.Step(s.now)
	if step == ending.TellOver && e.process.Over() == 0 {
		s.hears(e.job.Latest(), false)
		e.job.Knows(self)
		step = e.job.Step(s.now)
	}
	if step == ending.TellKnown && !e.job.IsSure(self) {
		s.hears(e.job.Latest(), true)
		e.job.Sure(self)
		step = e.job.Step(s.now)
	}
	switch step {
	case ending.TellOver:
		if m, ok := s.untold(e.over); ok {
			e.over = append(e.over, m)
			return s.saysEnd(Over, m, e.job.Latest())
		}
	case ending.TellKnown:
		if m, ok := s.untold(e.known); ok {
			e.known = append(e.known, m)
			a := s.saysEnd(Over, m, e.job.Latest())
			a.Msg.Number = allKnow
			return a
		}
	case ending.LetLeave:
		if m, ok := s.untold(e.leave); ok {
			e.leave = append(e.leave, m)
			return s.saysEnd(End, m, e.job.Latest())
		}
		e.end = e.job.Latest()
		return s.depart()
	}
	return protocol.Action[Message]{Kind: protocol.Idle}
}

// saysReturned tells the coordinator that all tasks of the process have returned in its view.
func (j *Job) saysReturned(s *State) protocol.Action[Message] {
	if s.holder() != s.members.Self() {
		return s.saysEnd(Returned, s.holder(), 0)
	}
	s.inside.returned(s.members.Self(), s.view)
	return j.finish(s)
}

// hears records what the process has learned about the end.
func (s *State) hears(view uint64, known bool) {
	if s.inside.process.Hear(view, known); known {
		s.rules.Over()
	}
}

// untold returns the next of the other processes concerned by the end that is not in a list.
func (s *State) untold(list []membership.Member) (membership.Member, bool) {
	for m := range s.inside.job.Living {
		if m != s.members.Self() && !slices.Contains(list, m) {
			return m, true
		}
	}
	return membership.Member{}, false
}

// allKnow is the Number of messages that say that all processes know that the job is over.
const allKnow = 1

// saysEnd returns the action that sends a message about the end.
func (s *State) saysEnd(k Kind, to membership.Member, over uint64) protocol.Action[Message] {
	m := s.job.memory.message(k)
	m.View = over
	if k == Knows && s.inside.process.Sure() > 0 {
		m.Number = allKnow
	}
	m.Letter.Letter = s.job.memory.letters.one()
	*m.Letter.Letter = membership.Letter{Base: s.view}
	m.Letter.From, m.Letter.To = s.members.Self().Incarnation, to.Incarnation
	return protocol.Action[Message]{Kind: protocol.Send, To: to.ID, Msg: m}
}

// depart lets a process leave successfully. From then on it is dead for the others.
func (s *State) depart() protocol.Action[Message] {
	if s.inside.said {
		return s.leave()
	}
	s.inside.said = true
	m := s.job.memory.message(Ended)
	m.View = s.inside.end
	m.Letter.Letter = s.job.memory.letters.one()
	*m.Letter.Letter = membership.Letter{Base: s.view}
	return protocol.Action[Message]{Kind: protocol.Deliver, Msg: m}
}

func (e *inside) clone() inside {
	c := *e
	c.job = *e.job.Clone()
	for _, list := range []*[]membership.Member{&c.over, &c.known, &c.leave, &c.answers, &c.greets} {
		*list = slices.Clone(*list)
	}
	return c
}

func (e *inside) sign(f fingerprint) fingerprint {
	e.job.Sign(func(x uint64) { f = f.with(x) })
	for _, list := range [][]membership.Member{e.over, e.known, e.leave, e.answers, e.greets} {
		for _, m := range list {
			f = f.with(uint64(uint32(m.ID))<<32 | uint64(m.Incarnation))
		}
		f = f.with(uint64(len(list)))
	}
	return f.with(e.process.Over()).with(e.process.Sure()).with(e.told).with(e.end<<1 | bit(e.said))
}
