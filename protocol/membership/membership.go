// Package membership lets processes agree, again and again, on which of them are alive: in numbered views, the same at
// all survivors. Its API may change.
//
// Source: Varma, Scalable, Fault-Tolerant Membership for Group Communication on HPC Systems (NCSU 2006), chapter 3, made
// safe where the thesis leaves gaps by rule 2 of docs/design.md. The first view is known without messages. A process
// that learns of a failure reports it to the proposer, the live process with the lowest id. The proposer sends the next
// view down a radix tree, acceptances come up, and a notice that the view is stable goes down. Underneath is one Paxos
// instance a view, decided by the members of the view before.
//
// # What makes it safe
//
// View n+1 is chosen when a quorum of view n has accepted it at one ballot: (a) every member that is not certainly dead,
// or (b) more than half of the members, where dead members count as not having accepted, or (c) half of the members, if
// an arbiter has named the proposer (arbiter.go). A process records its acceptance, where the record outlives it,
// before it answers, a proposer before it proposes. The notice of a certain death brings that record, so that the dead count as
// if they had answered. A later proposer asks for promises first and takes over what they say was accepted. A chosen
// view opens when all its members that are not certainly dead have accepted it. docs/views.md has the schedules that
// broke weaker rules.
//
// # Ballots without promises
//
// Round 0 needs no promises. Ballot 0.p may be used by member p once all members
// with lower ids are certainly dead and their records are known: the ballots
// below are theirs, and whatever was proposed in one is in its proposer's record.
// If there is such a value, p proposes it again. So the death of the proposer, or
// of a chain of them, costs no more than any other.
//
// # Costs
//
// One failure among N: 3(N−2) messages and, with a children a node, three times the height of the tree: T_s of the
// thesis is the first two. No node has more than a children, whichever nodes crash: the tree is that of the places on a
// route, and the last one takes the place of one that has gone.
//
// # The driver's duties
//
//  1. The driver reports a certain death by Notify with Death. Before that, it passes the Will of the dead process, as
//     a message from that process, to Receive: what it recorded last, empty if it recorded nothing. A Death without a
//     Will counts as certain, but not for quorum (a).
//  2. Work with a Record is done when the record is where it outlives the process; it may be read from the moment when
//     Next returns it. Work with a Fence is done when the request is on its way; a Death notice reports it if the
//     suspect dies. The process that kills the suspect checks the letter first (quorum.go). The same holds for a Wish,
//     which need not be granted.
//  3. A process that joins gets Begin, with its incarnation.
//  4. Work with Arbitrate is done when the arbiter is about to be asked. The driver passes the answer to Receive, as a
//     message from the process itself, in time for Patience: Granted, Denied or NoArbiter, with the Number of the
//     question.
//  5. With Gather, the driver reports by Heard that a member of the first view has begun, and by Death or Suspect that
//     one does not come in time.
//  6. The driver reports by Suspect that a process may have failed. A process that is heard again is not suspected any
//     more, except on the word of others.
package membership

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Config is what all processes know.
type Config struct {
	// First is the first view. Processes that are not in it may join, and ask its members.
	First *View

	// Fanout is the number of children of a node in the radix tree: a power of
	// two. model.FanoutFor chooses one. Default 2.
	Fanout int

	// Report is how long a process that learns of a failure waits for a proposal before it reports the failure to the
	// proposer; 0: it reports at once, as in the thesis. Where the proposer learns of failures by other means, waiting
	// saves N messages.
	Report protocol.Time

	// Retry is the time after which a message without an answer is sent again, then after twice the time, and so on.
	// Default 100.
	Retry protocol.Time

	// Patience is the time after which a process gives up hope that the failed members will be voted out, and after
	// which a proposer suspects members that do not answer. Default 20 times Retry.
	Patience protocol.Time

	// MajorityOnly leaves out quorum (a): for jobs without host agents that let
	// processes join.
	MajorityOnly bool

	// Arbiter says that there is an arbiter to ask when half of a view cannot be reached.
	Arbiter bool

	// Gather says that the members of the first view begin one after the other (gather.go), and that the driver reports
	// by Heard which have begun.
	Gather bool

	// Adopt gives the tasks of removed members to those that stay.
	Adopt bool

	// Letter returns memory for a letter. Default: new.
	Letter func() *Letter `json:"-"`
}

// bitsMax bounds the fan-out: 2^bitsMax.
const bitsMax = 16

// Protocol is the membership protocol, configured.
type Protocol struct {
	cfg  Config
	bits uint8 // of a digit of the radix tree

	first []protocol.Rank // the places of the first view
}

// New returns the protocol.
func New(cfg Config) (*Protocol, error) {
	cfg.Fanout, cfg.Retry = cmp.Or(cfg.Fanout, 2), cmp.Or(cfg.Retry, 100)
	cfg.Patience = cmp.Or(cfg.Patience, 20*cfg.Retry)
	if cfg.Letter == nil {
		cfg.Letter = func() *Letter { return new(Letter) }
	}
	switch {
	case cfg.First == nil || len(cfg.First.Members) == 0:
		return nil, fmt.Errorf("membership without a first view; allowed: one with members")
	case cfg.Fanout < 2 || cfg.Fanout > 1<<bitsMax || cfg.Fanout&(cfg.Fanout-1) != 0:
		return nil, fmt.Errorf("fan-out %d; allowed: a power of two from 2 to %d", cfg.Fanout, 1<<bitsMax)
	case cfg.Report < 0 || cfg.Retry < 0 || cfg.Patience < cfg.Retry:
		return nil, fmt.Errorf("report after %d, retry after %d, patience %d; allowed: from 0, from 1, from retry", cfg.Report, cfg.Retry, cfg.Patience)
	}
	if cfg.First.print == (fingerprint{}) { // it is not one of NewView
		cfg.First = NewView(cfg.First.Number, cfg.First.Members, cfg.First.Gone, cfg.First.Owners)
	}
	p := &Protocol{cfg: cfg, bits: uint8(bits.TrailingZeros(uint(cfg.Fanout))), first: make([]protocol.Rank, len(cfg.First.Members))}
	for i, m := range cfg.First.Members {
		p.first[i] = m.ID
	}
	return p, nil
}

// Init implements protocol.Protocol.
func (p *Protocol) Init(s *State, self protocol.Rank, seed uint64) {
	*s = State{self: Member{self, 1}, seed: seed, came: s.came[:0], failures: s.failures[:0], leavers: s.leavers[:0], works: s.works[:0], out: s.out[:0]}
	if m, in := p.cfg.First.Find(self); in {
		s.self, s.view, s.open, s.stage = m, p.cfg.First, true, inside
	}
}

// Notify implements protocol.Protocol.
func (p *Protocol) Notify(s *State, now protocol.Time, n protocol.Notice) {
	who := Member{n.Rank, uint32(n.Value)}
	switch n.Kind {
	case protocol.Begin:
		p.beginJoin(s, now, uint32(n.Value))
	case protocol.Death:
		if who != s.self {
			p.failed(s, now, failure{who: who, certain: true})
		}
	case protocol.Suspect:
		if who != s.self {
			p.failed(s, now, failure{who: who})
		}
	case protocol.WorkDone:
		if len(s.works) > 0 {
			if s.works[0] == Record {
				s.recorded++
			}
			s.works = slices.Delete(s.works, 0, 1)
		}
	}
}

// Receive implements protocol.Protocol.
func (p *Protocol) Receive(s *State, now protocol.Time, from protocol.Rank, m Message) {
	switch {
	case m.Letter == nil || s.stage == outside && m.Kind != Will:
		return
	case m.To != 0 && m.To != s.self.Incarnation: // for an earlier incarnation
		return
	case m.Kind == Will:
		p.willed(s, now, Member{from, m.From}, m.Letter)
		return
	case m.Kind == Granted || m.Kind == Denied || m.Kind == NoArbiter:
		p.arbitrated(s, from, m.Letter)
		return
	case s.stage == excluded:
		if m.Kind != Decided {
			s.send(from, m.From, p.write(Letter{Kind: Decided, Number: s.view.Number, Base: s.view}))
		} else if s.leave.lingers && m.Open && m.Base.Number >= s.view.Number {
			p.part(s)
		}
		return
	case p.outlived(s, from, m):
		return
	}
	p.Heard(s, now, Member{from, m.From})
	switch m.Kind {
	case Prepare, Propose, Confirm:
		p.descend(s, now, from, m)
	case Promise, Accept, Present:
		p.ascend(s, from, m)
	case Stable:
		p.stable(s, now, m)
	case Reject:
		p.rejected(s, now, m.Letter)
	case Decided:
		p.learn(s, now, m.Base, m.Open)
	case Failure:
		p.reported(s, now, Member{from, m.From}, m.Letter)
	case Noted: // the proposer knows of a failure
		if f := s.find(m.Who); f != nil && f.to == from {
			f.seen = true
		}
	case Join:
		p.asked(s, now, m.Who)
	case Leave:
		p.leaves(s, m.Letter)
	}
}

// outlived answers a process that was removed but does not know it, and reports whether it was.
func (p *Protocol) outlived(s *State, from protocol.Rank, m Message) bool {
	if s.stage != inside || !s.view.Past(Member{from, m.From}) {
		return false
	}
	if m.Kind != Decided {
		s.send(from, m.From, p.write(Letter{Kind: Decided, Number: s.view.Number, Base: s.view, Open: s.open}))
	}
	return true
}

// Next implements protocol.Protocol.
func (p *Protocol) Next(s *State, now protocol.Time) protocol.Action[Message] {
	p.progress(s, now)
	if s.done < len(s.out) {
		a := s.out[s.done]
		if s.done++; s.done == len(s.out) {
			s.out, s.done = s.out[:0], 0
		}
		if a.Kind == protocol.Work {
			s.works = append(s.works, a.Msg.Kind)
			if a.Msg.Kind == Record {
				s.will = a.Msg.Letter
			}
		}
		return a
	}
	if at := p.due(s); at < protocol.Never {
		return protocol.Action[Message]{Kind: protocol.Wait, At: at}
	}
	return protocol.Action[Message]{Kind: protocol.Idle}
}

// progress does what is due because of the time or of what has arrived. If nothing is due it changes nothing.
func (p *Protocol) progress(s *State, now protocol.Time) {
	if s.stage == joining {
		p.inherit(s, now) // the proposal may come after the Death notices
	}
	switch s.stage {
	case joining:
		p.join(s, now)
	case inside:
		p.climb(s)
		if s.quiet() {
			return
		}
		p.goodbye(s, now)
		for s.stage == inside && p.advance(s, now) {
		}
		p.report(s, now)
		p.despair(s, now)
	case excluded:
		p.linger(s, now)
	}
}

// quiet reports whether there is nothing to lead, to report or to despair of, now or later: true for most processes,
// most of the time.
func (s *State) quiet() bool {
	return s.open && s.value == nil && len(s.failures)+len(s.joiners)+len(s.leavers) == 0 && !s.goes() && s.wish <= s.view.Epoch && s.campaign.phase == resting
}

// due returns when there will be something to do even if nothing arrives.
func (p *Protocol) due(s *State) protocol.Time {
	switch s.stage {
	case joining:
		return p.joinDue(s)
	case inside:
		if !s.quiet() {
			return min(p.leadDue(s), p.reportDue(s), p.despairDue(s), p.goodbyeDue(s))
		}
	case excluded:
		if s.leave.lingers {
			return min(s.leave.at, s.leave.until)
		}
	}
	return protocol.Never
}

// Testament returns what a process would leave if it crashed now: the message that others get before its Death notice.
func Testament(s *State) Message {
	l := noWill
	if s.will != nil {
		will := *s.will
		will.Kind = Will
		l = &will
	}
	return Message{Letter: l, From: s.self.Incarnation}
}

// noWill is the will of a process that has recorded nothing.
var noWill = &Letter{Kind: Will}
