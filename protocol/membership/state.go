package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// State is the state of one process.
type State struct {
	self  Member
	seed  uint64
	stage stage
	view  *View         // in force: the last one known to be chosen; excluded: the view that removed the process
	open  bool          // view is known to be open
	since protocol.Time // when it came into force
	told  bool          // the user was notified that there is no quorum

	came     set           // members of the first view that have begun
	gathered protocol.Time // when all had, or had failed

	// What it owes the decision on the next view.
	promised Ballot
	accepted Ballot
	value    *View  // the view that it accepted
	seen     Ballot // the highest it has heard of

	failures []failure // in the order of ids
	joiners  []Member  // that asked this process to let them in
	leavers  []leaver  // that announced it to this process, in the order of ids
	leave    leaveState
	parted   []Member // left with the view in force, or any since the last open one; the process that opens it notifies them
	limits   []limit  // in the order of ids
	wish     uint64   // commit this epoch, and balance tasks

	arbitration arbitration // on what follows the view

	route    []protocol.Rank // of the last view that opened; nil: that of the first
	sweep    sweep
	campaign campaign
	hold     protocol.Time // until then holder proposes
	holder   protocol.Rank
	backoff  protocol.Time // do not propose before
	rejects  uint32
	join     joinState

	will     *Letter // what it recorded last
	works    []Kind  // asked for, not done
	records  uint32  // asked for
	recorded uint32  // done

	out  []protocol.Action[Message] // to do, in order
	done int                        // of these
}

type stage uint8

const (
	outside  stage = iota // neither a member nor joining
	joining               // has asked to be let in
	inside                // a member of view
	excluded              // removed, for good
)

// Self returns the process's id and its present incarnation.
func (s *State) Self() Member { return s.self }

// View returns the view in force: the last one that is known to be chosen. If the process was removed, it is the view
// that removed it; nil: the process was never a member.
func (s *State) View() *View { return s.view }

// Open reports whether the view in force is open for work.
func (s *State) Open() bool { return s.stage == inside && s.open }

// Member reports whether the process is a member of the view in force.
func (s *State) Member() bool { return s.stage == inside }

// Out reports whether the process was removed, for good.
func (s *State) Out() bool { return s.stage == excluded }

// Hopeless reports whether the user was notified that there is no quorum, and nothing better has happened since.
func (s *State) Hopeless() bool { return s.told }

// Settled reports whether nothing is under way: the view is open and none of its members has failed, or the process is
// no member and does not wait to join.
func (s *State) Settled() bool {
	switch s.stage {
	case joining:
		return s.told
	case inside:
		return s.open && s.value == nil && !s.anyFailed() && len(s.joiners)+len(s.leavers) == 0 && !s.goes()
	}
	return true
}

// Decides reports whether a view is being decided, as far as this process takes part in it, or is chosen and not open yet.
func (s *State) Decides() bool { return !s.open || s.value != nil || s.campaign.phase != resting }

// Accepted returns what the process has accepted to follow the view in force; nil: nothing.
func (s *State) Accepted() (Ballot, *View) { return s.accepted, s.value }

// Failed lists the members of the view in force that the process takes for failed, certainly or not.
func (s *State) Failed() (failed []Member) {
	for _, f := range s.failures {
		if s.view != nil && s.view.Has(f.who) {
			failed = append(failed, f.who)
		}
	}
	return failed
}

// write copies a letter into memory that stays.
func (p *Protocol) write(l Letter) *Letter {
	stays := p.cfg.Letter()
	*stays = l
	return stays
}

func (s *State) send(to protocol.Rank, incarnation uint32, l *Letter) {
	s.sendAt(to, incarnation, l, 0)
}

// sendAt sends a letter on the tree.
func (s *State) sendAt(to protocol.Rank, incarnation uint32, l *Letter, at int) {
	s.out = append(s.out, protocol.Action[Message]{
		Kind: protocol.Send, To: to,
		Msg: Message{Letter: l, From: s.self.Incarnation, To: incarnation, At: uint32(at)},
	})
}

func (s *State) deliver(l *Letter) {
	s.out = append(s.out, protocol.Action[Message]{Kind: protocol.Deliver, Msg: Message{Letter: l, From: s.self.Incarnation}})
}

func (s *State) work(l *Letter) {
	s.out = append(s.out, protocol.Action[Message]{Kind: protocol.Work, Msg: Message{Letter: l, From: s.self.Incarnation}})
}

// accept accepts a view and requests a record of that.
func (p *Protocol) accept(s *State, b Ballot, base, value *View) {
	s.promised, s.seen = max(s.promised, b), max(s.seen, b)
	if s.accepted == b && s.value.Same(value) {
		return
	}
	s.accepted, s.value = b, value
	s.records++
	s.work(p.write(Letter{Kind: Record, Ballot: b, Number: base.Number, Base: base, Value: value}))
}

// durable reports whether all that was accepted is recorded.
func (s *State) durable() bool { return s.recorded == s.records }

// Clone returns a copy that shares nothing that changes.
func (s *State) Clone() State {
	c := *s
	c.failures = slices.Clone(s.failures)
	c.joiners = slices.Clone(s.joiners)
	c.leavers = slices.Clone(s.leavers)
	c.works = slices.Clone(s.works)
	c.out, c.done = slices.Clone(s.out[s.done:]), 0
	c.sweep.waiting = slices.Clone(s.sweep.waiting)
	c.sweep.missing = slices.Clone(s.sweep.missing)
	c.came = slices.Clone(s.came)
	c.campaign.answered = slices.Clone(s.campaign.answered)
	return c
}

// Fingerprint stands for the state.
func (s *State) Fingerprint() [2]uint64 {
	f := fingerprint{s.seed, uint64(s.stage)}.member(s.self).view(s.view).with(uint64(s.since)).flag(s.open).flag(s.told)
	for _, w := range s.came {
		f = f.with(w)
	}
	f = f.with(uint64(len(s.came))).with(uint64(s.gathered))
	f = f.with(uint64(s.promised)).with(uint64(s.accepted)).view(s.value).with(uint64(s.seen))
	for i := range s.failures {
		f = s.failures[i].sign(f)
	}
	f = f.with(uint64(len(s.failures)))
	for _, m := range s.joiners {
		f = f.member(m)
	}
	f = f.with(uint64(len(s.joiners)))
	for _, l := range s.leavers {
		f = f.member(l.who).flag(l.free)
	}
	f = f.with(uint64(len(s.leavers))).flag(s.leave.on).with(s.leave.free).with(uint64(uint32(s.leave.to))).with(uint64(s.leave.at)).with(uint64(s.leave.wait))
	f = f.flag(s.leave.lingers).with(uint64(s.leave.until)).with(uint64(len(s.parted)))
	for _, l := range s.limits {
		f = f.member(l.who).with(uint64(l.most))
	}
	f = f.with(uint64(len(s.limits))).with(s.wish)
	f = s.campaign.sign(s.sweep.sign(f)).ranks(s.route)
	f = f.with(uint64(s.hold)).with(uint64(s.holder)).with(uint64(s.backoff)).with(uint64(s.rejects))
	f = f.with(uint64(s.join.at)).with(uint64(s.join.began)).with(uint64(s.join.next)).member(s.join.asked).view(s.join.view).view(s.join.base)
	f = f.letter(s.will).with(uint64(s.records)<<32 | uint64(s.recorded))
	for _, k := range s.works {
		f = f.with(uint64(k))
	}
	f = f.with(uint64(len(s.works))).with(uint64(s.arbitration))
	for i := range s.out[s.done:] {
		a := &s.out[s.done+i]
		f = f.with(uint64(a.Kind)<<32 | uint64(uint32(a.To))).and(fingerprint(a.Msg.Fingerprint()))
	}
	return f.with(uint64(len(s.out) - s.done))
}

func (f fingerprint) letter(l *Letter) fingerprint {
	if l == nil {
		return f.with(0)
	}
	return f.and(l.fingerprint())
}
