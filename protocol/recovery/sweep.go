package recovery

import (
	"math"
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// The sweep. Source: docs/decisions/2026-11-16-epochs.md, points 2, 5 and 6. An epoch is
// committed when all tasks have saved it. The sweep uses a binomial tree of the view's processes. Up
// go the least epoch that all tasks below have saved, and the greatest that any process
// there knows to be committed. The root commits the greater of the two as seen from it,
// and down goes what is committed.
//
// Cost: 2(P−1) messages for an epoch, and as many for a view, in 2⌈log₂ P⌉ steps; none
// for the first view.
//
// Failures: the sweep starts again in each view, and messages of other views do not count. What
// was committed in an earlier view is committed in this one, if any process that knew of it
// is a member. If none is, no live process has continued from it, and it is saved once more.
//
// The sweep assumes that views come in the order of their numbers, that a link delivers
// in order, and that no task saves epoch c+1 at a process that does
// not know that c is committed.

// Idle is what a process without tasks has saved: it delays no other process.
const Idle = math.MaxUint64

// Sweep is a process's part in finding out which epoch all tasks have saved. Call
// Next after every other call.
type Sweep struct {
	self    protocol.Rank
	view    uint64
	members []protocol.Rank // in order
	at      int             // this process's place among them; −1: none
	first   bool            // whether it is the view of Init
	hold    bool

	saved     uint64 // in this view; 0: nothing
	surplus   int64  // its balance
	committed uint64
	balance   int64 // of the committed epoch
	known     bool

	came []standing // from children, by number
	sent standing   // to the parent, or known to it
	told int        // number of children that were sent what is committed

	held []heldSweep
}

// standing is how far some processes are. The balance is that of the epoch that they have
// saved, if it is above what they know to be committed, otherwise that of the committed epoch:
// the previous balance is not needed any more.
type standing struct {
	saved, committed uint64
	balance          int64
	said             bool
}

// saves reports whether there is an epoch that all tasks have saved, and that is above
// what is committed.
func (a standing) saves() bool { return a.committed < a.saved && a.saved < Idle }

// and combines two.
func (a standing) and(b standing) standing {
	sum := standing{saved: min(a.saved, b.saved), committed: max(a.committed, b.committed), said: true}
	for _, x := range [...]standing{a, b} {
		switch {
		case sum.saves() && x.saves():
			sum.balance += x.balance
		case !sum.saves() && !x.saves() && x.committed == sum.committed && sum.balance == 0:
			sum.balance = x.balance // all processes that know it know the same
		}
	}
	return sum
}

// SweepMessage is what processes send each other. A message that goes up says what all tasks
// below have saved, what is committed as far as is known there, and the balance of the
// first if it is above the second, otherwise of the second. A message that goes down says what
// is committed, and its balance. With Saved it is beside the sweep, and may go to any process at any time: others
// may know of more.
type SweepMessage struct {
	View             uint64
	Up               bool
	Saved, Committed uint64
	Balance          int64
}

// aside reports whether the message is beside the sweep.
func (m SweepMessage) aside() bool { return !m.Up && m.Saved > 0 }

// heldSweep is a message of a later view.
type heldSweep struct {
	from protocol.Rank
	msg  SweepMessage
}

// Init makes s the part of process self in the first view, in which all know that epoch 0 is committed. A process that
// is not in that view knows nothing before its first NewView.
func (s *Sweep) Init(self protocol.Rank, view uint64, members []protocol.Rank) {
	*s = Sweep{self: self, first: true, members: s.members[:0], came: s.came[:0], held: s.held[:0]}
	s.open(view, members)
	s.known = s.at >= 0
	s.told = len(s.came)
}

// NewView says that a view is open, and which processes are in it. What is known to be committed
// stays; the process reports again what its tasks have saved.
func (s *Sweep) NewView(number uint64, members []protocol.Rank) {
	if number <= s.view {
		return
	}
	s.first, s.known, s.saved = false, false, 0
	s.open(number, members)
	later := s.held[:0]
	for _, h := range s.held {
		if h.msg.View > s.view {
			later = append(later, h)
		} else {
			s.take(h.from, h.msg)
		}
	}
	s.held = later
	s.settle()
}

// open starts the sweep of a view.
func (s *Sweep) open(number uint64, members []protocol.Rank) {
	s.view, s.members = number, append(s.members[:0], members...)
	slices.Sort(s.members)
	s.at = slices.Index(s.members, s.self)
	s.came = slices.Grow(s.came[:0], s.children())[:s.children()]
	clear(s.came)
	s.sent, s.told = standing{}, 0
}

// Save says that all tasks of this process have saved an epoch in the current view, and
// how many messages they have sent since the previous Save, less those that they have
// received. Idle has no balance. An epoch that is already committed is ignored.
func (s *Sweep) Save(epoch uint64, balance int64) {
	if epoch > s.saved {
		s.saved, s.surplus = epoch, balance
		s.settle()
	}
}

// Receive takes a message that arrived. It ignores what no process would send in this view.
// That an epoch is committed counts whichever process says it, but not before the view in which it says so: that view
// may move tasks, which must not continue before.
func (s *Sweep) Receive(from protocol.Rank, m SweepMessage) {
	if m.View > s.view {
		s.keep(from, m)
		return
	}
	s.take(from, m)
	s.settle()
}

// keep keeps a message of a later view: the latest of its kind from every sender.
func (s *Sweep) keep(from protocol.Rank, m SweepMessage) {
	i := slices.IndexFunc(s.held, func(h heldSweep) bool {
		return h.from == from && h.msg.Up == m.Up && h.msg.aside() == m.aside()
	})
	switch {
	case i < 0:
		s.held = append(s.held, heldSweep{from, m})
	case s.held[i].msg.View <= m.View:
		s.held[i].msg = m
	}
}

// take takes a message of the current view, or of an earlier one.
func (s *Sweep) take(from protocol.Rank, m SweepMessage) {
	if !m.Up {
		s.learn(m.Committed, m.Balance)
	}
	if m.View < s.view {
		return
	}
	if m.Up {
		if k := s.childOf(from); k >= 0 && m.Saved >= s.came[k].saved && m.Committed >= s.came[k].committed {
			s.came[k] = standing{m.Saved, m.Committed, m.Balance, true}
		}
		return
	}
	if s.at <= 0 || from != s.parent() || m.aside() {
		return
	}
	s.know()
	s.sent.saved, s.sent.committed = max(s.sent.saved, m.Committed), max(s.sent.committed, m.Committed)
}

// know records that what is committed is known as of the current view: the children must learn it.
func (s *Sweep) know() {
	if !s.known {
		s.known, s.told = true, 0
	}
}

// learn records what is committed.
func (s *Sweep) learn(epoch uint64, balance int64) {
	if epoch > s.committed {
		s.committed, s.balance, s.told = epoch, balance, 0
	}
}

// settle lets the root commit. While it holds, it does not commit what all have
// saved by itself, unless that is a mismatch, which is reported without a view.
func (s *Sweep) settle() {
	all, ok := s.below()
	if s.at != 0 || !ok {
		return
	}
	switch {
	case !all.saves():
		s.learn(all.committed, all.balance)
	case !s.hold || all.balance != 0:
		s.learn(all.saved, all.balance)
	default:
		s.learn(all.committed, 0) // all have continued from it
	}
	s.know()
}

// below returns how far all processes are from here downwards, if all children have reported.
func (s *Sweep) below() (all standing, ok bool) {
	all = s.own()
	for _, c := range s.came {
		if !c.said {
			return all, false
		}
		all = all.and(c)
	}
	return all, true
}

// own returns how far this process is. A process that has saved nothing in this view delays nothing
// below what is committed.
func (s *Sweep) own() standing {
	o := standing{max(s.saved, s.committed), s.committed, s.balance, true}
	if o.saves() {
		o.balance = s.surplus
	}
	return o
}

// Next returns what to send next, and to which process, if anything.
func (s *Sweep) Next() (to protocol.Rank, m SweepMessage, ok bool) {
	if s.known && s.told < len(s.came) {
		s.told++
		m = SweepMessage{View: s.view, Committed: s.committed, Balance: s.balance}
		return s.child(len(s.came) - s.told), m, true // the children with the most below them first
	}
	if s.at <= 0 {
		return 0, m, false
	}
	all, ok := s.below()
	if !ok || !s.news(all) {
		return 0, m, false
	}
	s.sent = all
	return s.parent(), SweepMessage{s.view, true, all.saved, all.committed, all.balance}, true
}

// news reports whether the parent must learn how far all processes are from here downwards.
func (s *Sweep) news(all standing) bool {
	if !s.first && !s.sent.said {
		return true
	}
	return all.saved > s.sent.saved || all.committed > s.sent.committed
}

// Hold says whether the root waits for Commit with what all have saved.
func (s *Sweep) Hold(on bool) {
	s.hold = on
	s.settle()
}

// Commit says that an epoch is committed, because a view says so.
func (s *Sweep) Commit(epoch uint64) {
	s.learn(epoch, 0)
	s.settle()
}

// Complete returns, at a root that holds, the epoch that all have saved and that is not committed.
func (s *Sweep) Complete() (epoch uint64, ok bool) {
	all, ok := s.below()
	if s.at != 0 || !ok || !all.saves() {
		return 0, false
	}
	return all.saved, true
}

// Committed returns the greatest epoch that this process knows to be committed, and how many
// more messages were sent in the previous epoch than received. If that is not 0, Save fails.
func (s *Sweep) Committed() (epoch uint64, balance int64) { return s.committed, s.balance }

// Known reports whether what is committed is known as of the current view.
func (s *Sweep) Known() bool { return s.known }

// The tree: the process at place i has those at i+1, i+2, i+4 … as children, as far as the
// block of 2^k that begins with i goes.

// children returns their number.
func (s *Sweep) children() int {
	switch {
	case s.at < 0:
		return 0
	case s.at == 0:
		return bits.Len(uint(len(s.members) - 1))
	}
	return min(bits.TrailingZeros(uint(s.at)), bits.Len(uint(len(s.members)-1-s.at)))
}

func (s *Sweep) child(k int) protocol.Rank { return s.members[s.at+1<<k] }

// childOf returns the index of a child; −1: it is none.
func (s *Sweep) childOf(r protocol.Rank) int {
	for k := range s.came {
		if s.child(k) == r {
			return k
		}
	}
	return -1
}

func (s *Sweep) parent() protocol.Rank { return s.members[s.at&(s.at-1)] }
