// Localized views: the future work of Varma, Scalable, Fault-Tolerant Membership
// for Group Communication on HPC Systems (NCSU 2006), end of chapter 5.
//
// A process keeps no list of members. Which process is where in the radix tree is arithmetic, so all it has to know is
// which processes stand in for the dead near it: for each subtree beside its own path from the root, and for each of its
// own children, the lowest id that is not known to be dead (localizedtable.go). Views are decided by sweeps over that
// tree: down propose, up acceptances, down stable (localizedsweep.go).
//
// # The tree and its degree
//
// The place of a dead process is taken by the lowest live id of its subtree; so the root is the lowest live id, as in
// the thesis (3.1.5). The places that a process x holds are a chain from x upwards: the holder of a place holds the next
// one below it on its own path, since the lowest of a set is the lowest of each part it is in. Of a place above x, one
// child lies on the path to x and is held by x too; of x itself none does. If x is at level ℓ and the highest place it
// holds at level t, it has at most
//
//	(a−1)·(ℓ−t) + a  ≤  (a−1)·(H−1) + a
//
// children, H being the number of levels of the tree without failures, however many processes are dead. Giving the
// children of a dead process to its parent, as in the thesis (3.1.3), has no such bound. The depth never grows: a child
// holds a place that is at least one level below that of its parent, so there are at most H−1 links from the root to any
// process. And it is one tree: the subtrees that a process asks others to cover are disjoint, and together with itself
// and the dead above it they are all of the place it was asked to cover.
//
// # What it promises
//
//   - All survivors open the same views, in the same order, with the same changes
//     behind each number; one that joins begins with the view that added it.
//   - A view removes only processes that are dead. If deaths and joins end, a last
//     view is opened by every survivor, and by then every member that is dead has
//     been removed.
//   - Every survivor knows which processes are above and below it. A view's size is exact in this sense: it counts those
//     that accepted the view. If no process dies later, it is the number of live processes.
//   - Whether an id is alive is found out by asking along the tree, in at most
//     2(H−1)+1 messages (localizedask.go).
//
// What it does not promise: it is for certain deaths only. A wrong suspicion, or a
// cut network, would split the group: rule 2 of the design, which is for those,
// counts quorums and needs the list of members. There is no list of members and no
// ownership map. A change may name a process a second time: one that joined does
// not know what was removed before its time.
//
// # Why all see the same
//
// A process is root when all lower ids are certainly dead. So there is one at a time, and proposals are ordered by their
// proposer, then by their view. The root sends stable when every live process has accepted: the tree reaches all. So if
// any process opened view n with some changes, every process then alive had accepted these, each later proposer among
// them; and a proposer that has accepted view n, and does not know it to be open, proposes the same again. If it has not
// accepted view n, no process has opened it: the proposer is free, and a process that accepted another view n drops that
// one. A proposal of view n+1 says that n is stable, so a process that missed the notice learns it then; and a process
// misses a notice only if another one died, which is the reason of a next view. A new root always has something to
// propose: the removal of the one before it.
//
// # Cost
//
// One failure of N: one report, N−2 messages each for propose, accept and stable; from the report's arrival to stability
// at the root 2(H−1) hops. The sweep is also the report's acknowledgement. A process that knows of more deaths reports
// them in its acceptance, so each further sweep makes up to 12 changes; where views follow each other, the proposal of
// one is the notice of the other. Memory: 8 bytes for each of (a−1)(H−1)+a entries and 232 more, whatever happened
// before. Survives any deaths, also during sweeps, of roots and chains of roots, while one process lives that is in an
// open view and knows it.
//
// # What it assumes
//
// Reliable links, in order. A detector that reports to a process the death of each one that it watches (watched), as soon
// as it watches it, however long ago the death was. Ids are given in order: if id j asks to join, those before it have
// joined, are about to, or are dead. An id is never used again: there are no incarnations.

package membership

import (
	"cmp"
	"fmt"
	"math"

	"github.com/coppice-go/coppice/protocol"
)

// Localized is the membership of localized views, configured.
type Localized struct {
	tree  localTree
	first protocol.Rank // ids below are members of the first view
	retry protocol.Time
}

// LocalConfig says what a Localized is.
type LocalConfig struct {
	// Members of the first view: the ids below. Its number is 1.
	Members int
	// Capacity bounds the ids, those that join included. 0: Members.
	Capacity int
	// Fanout is a: how many children a process has, a power of two.
	Fanout int
	// Retry is the time after which an unanswered question is asked again. 0: 1000.
	Retry protocol.Time
}

// Bounds of what a process keeps.
const (
	LocalEntries = 34 // of its table
	localChanges = 12 // of a view
)

// NewLocalized makes the membership.
func NewLocalized(c LocalConfig) (*Localized, error) {
	c.Capacity, c.Retry = cmp.Or(c.Capacity, c.Members), cmp.Or(c.Retry, 1000)
	switch {
	case c.Members < 1 || c.Members > localIDs:
		return nil, fmt.Errorf("%d members; allowed: 1 to %d", c.Members, localIDs)
	case c.Capacity < c.Members || c.Capacity > localIDs:
		return nil, fmt.Errorf("room for %d ids; allowed: %d to %d", c.Capacity, c.Members, localIDs)
	case c.Fanout < 2 || c.Fanout > LocalEntries || c.Fanout&(c.Fanout-1) != 0:
		return nil, fmt.Errorf("%d children; allowed: a power of two from 2 to 32", c.Fanout)
	case c.Retry < 0:
		return nil, fmt.Errorf("asking again after %d; allowed: 1 and more, or 0 for 1000", c.Retry)
	}
	l := &Localized{tree: newLocalTree(c.Fanout), first: protocol.Rank(c.Members), retry: c.Retry}
	if need := l.DegreeMax(c.Capacity); need > LocalEntries {
		return nil, fmt.Errorf("%d ids with %d children each: up to %d neighbours below; allowed: %d", c.Capacity, c.Fanout, need, LocalEntries)
	}
	return l, nil
}

// DegreeMax returns how many children a process can come to have among n ids.
func (l *Localized) DegreeMax(n int) int {
	return l.tree.level(protocol.Rank(n-1))*(l.tree.fanout()-1) + l.tree.fanout()
}

// LocalChange removes processes from the view before: one, or all in a subtree.
type LocalChange protocol.Rank

// localAll removes all members in the subtree of a place.
func localAll(at protocol.Rank) LocalChange { return LocalChange(^at) }

// At returns the process that is removed, or the top of the subtree.
func (c LocalChange) At() protocol.Rank {
	if c.All() {
		return protocol.Rank(^c)
	}
	return protocol.Rank(c)
}

// All reports whether all in the subtree are removed.
func (c LocalChange) All() bool { return c < 0 }

// LocalKind is the kind of a LocalMessage.
type LocalKind uint8

// Messages between processes, and from them to their users.
const (
	LocalPropose LocalKind = iota // down: this is the next view; cover the subtree of At
	LocalAccept                   // up: all in the subtree of At have accepted
	LocalStable                   // down: all have accepted
	LocalReport                   // to the proposer: these are dead
	LocalJoin                     // to the lowest id: let me in
	LocalAsk                      // along the tree: is At alive?
	LocalTell                     // to the asker: At is alive (Size 1) or is not (0)
	LocalOpened                   // to the user: view Number is open
	LocalAnswer                   // to the user: what LocalTell says
)

// LocalMessage is a message between processes, or from one to its user.
type LocalMessage struct {
	Changes [localChanges]LocalChange // Propose, Opened: of the view; Accept, Report: for the next one
	Number  uint32                    // of the view
	At      protocol.Rank             // the place, or the id asked for
	By      protocol.Rank             // the proposer; Ask: the asker
	Base    protocol.Rank             // ids below may be members of the view before; Accept: 1 if one of an open view has accepted
	End     protocol.Rank             // ids below may be members of this view
	Size    protocol.Rank             // how many accepted: Propose: the view before; Accept: in the subtree
	N       uint8                     // how many Changes
	Kind    LocalKind
}

var localKindNames = [...]string{"propose", "accept", "stable", "report", "join", "ask", "tell", "opened", "answer"}

func (m LocalMessage) String() string {
	text := fmt.Sprintf("%s %d by %d at %d", localKindNames[m.Kind], m.Number, m.By, m.At)
	if m.Kind == LocalPropose || m.Kind == LocalOpened {
		text += fmt.Sprintf(", ids %d to %d", m.Base, m.End)
	}
	for _, c := range m.Changes[:m.N] {
		text += fmt.Sprintf(", −%d", c.At())
		if c.All() {
			text += "…"
		}
	}
	return text
}

// localContent is what a view changes.
type localContent struct {
	changes   [localChanges]LocalChange
	base, end protocol.Rank
	n         uint8
}

// LocalState is one process's state: a plain value, its size the same for every
// number of processes.
type LocalState struct {
	// By entry of the table (localizedtable.go).
	low   [LocalEntries]protocol.Rank // all lower ids of the subtree are dead
	clean [LocalEntries]protocol.Rank // all lower ids of the subtree have been removed

	// By the parity of the view's number: of the latest view accepted, and what is
	// gathered for the next one. The latter is still the one before until that is
	// delivered.
	content [2]localContent

	sent  uint64 // entries that were sent what the present phase sends
	acked uint64 // entries that have accepted
	told  uint64 // entries whose end was reported to the proposer

	askAgain protocol.Time // when to ask again

	number    uint32 // of the latest view accepted
	open      uint32 // of the latest known to be stable
	delivered uint32 // of the latest the user knows

	dead     uint32 // levels whose ancestor is known to be dead
	removed  uint32 // levels whose ancestor a view has removed
	toldDead uint32 // levels whose ancestor's death was reported to the proposer

	self, ballot, asker protocol.Rank // ballot: the proposer of the latest view accepted
	size, lastSize      protocol.Rank // how many accepted: here and below; of all, the latest open view
	asked               protocol.Rank // ids below want to be members
	contact             protocol.Rank // joining: the process to ask
	query               protocol.Rank // what the user asked; −1: nothing
	relay, relayFor     protocol.Rank // the question to pass on, and its asker; −1: none

	level  uint8 // of self
	top    uint8 // level of the highest place held
	region uint8 // level of the place to cover in this sweep

	proposing bool // the sweep is the first one, not that of the notice
	answered  bool // what the asker asked
	member    bool // of the latest view accepted
	settled   bool // of one that is open
	vouched   bool // one below that is settled has accepted
	vouches   bool // owes the asker this news
	joining   bool
	knocked   bool // asked the contact
	queried   bool // sent the query
	known     bool // the answer to the query has come
	alive     bool // it
}

var _ protocol.Protocol[LocalState, LocalMessage] = (*Localized)(nil)

// Init implements protocol.Protocol.
func (l *Localized) Init(s *LocalState, self protocol.Rank, _ uint64) {
	*s = LocalState{self: self, ballot: -1, asker: -1, query: -1, relay: -1, relayFor: -1}
	s.level = uint8(l.tree.level(self))
	s.top, s.region = s.level, s.level
	for i := range l.slots(s) {
		s.low[i] = l.place(s, i)
	}
	if self < l.first {
		s.member, s.settled = true, true
		s.number, s.open, s.delivered = 1, 1, 1
		s.ballot, s.answered = 0, true
		s.sent = math.MaxUint64 // every process knows
		s.lastSize = l.first
		s.content[1] = localContent{base: l.first, end: l.first}
	}
	l.rise(s)
}

// Receive implements protocol.Protocol.
func (l *Localized) Receive(s *LocalState, _ protocol.Time, from protocol.Rank, m LocalMessage) {
	switch m.Kind {
	case LocalPropose:
		l.proposed(s, from, &m)
	case LocalAccept:
		l.accepted(s, from, &m)
	case LocalStable:
		l.stable(s, &m)
	case LocalReport:
		if m.Number == s.number && m.By == s.ballot { // else an acceptance will report it
			s.gather(m.Changes[:m.N])
		}
	case LocalJoin:
		s.asked = max(s.asked, from+1)
	case LocalAsk:
		if s.relay < 0 { // else it is asked again
			s.relay, s.relayFor = m.At, m.By
		}
	case LocalTell:
		if m.At == s.query {
			s.known, s.alive = true, m.Size > 0
		}
	}
}

// Notify implements protocol.Protocol. It takes Deaths; Begin at a process that is no member: join; Begin at a member:
// is the process with the id Value alive?
func (l *Localized) Notify(s *LocalState, _ protocol.Time, n protocol.Notice) {
	switch n.Kind {
	case protocol.Death:
		l.learn(s, n.Rank)
		l.rise(s)
		if n.Rank == s.contact && s.seeks() {
			s.contact, s.knocked = s.contact+1, false
		}
	case protocol.Begin:
		if s.self >= l.first && !s.joining {
			s.joining = true
		} else if s.query < 0 && n.Value < uint64(localIDs) {
			s.query, s.queried, s.known = protocol.Rank(n.Value), false, false
		}
	}
}

// seeks reports whether the process wants to join and knows a process to ask.
func (s *LocalState) seeks() bool { return s.joining && !s.settled && s.contact < s.self }

// Next implements protocol.Protocol.
func (l *Localized) Next(s *LocalState, now protocol.Time) protocol.Action[LocalMessage] {
	if s.seeks() && !s.knocked {
		s.knocked = true
		return localSend(s.contact, LocalMessage{Kind: LocalJoin})
	}
	if !s.member {
		return protocol.Action[LocalMessage]{Kind: protocol.Idle}
	}
	if s.delivered < s.open || s.top == 0 && l.lead(s) {
		return protocol.Action[LocalMessage]{Kind: protocol.Deliver, Msg: s.opened()}
	}
	if to, m, ok := l.sweep(s); ok {
		return localSend(to, m)
	}
	if m, ok := l.report(s); ok {
		return localSend(s.ballot, m)
	}
	return l.inquire(s, now)
}

func localSend(to protocol.Rank, m LocalMessage) protocol.Action[LocalMessage] {
	return protocol.Action[LocalMessage]{Kind: protocol.Send, To: to, Msg: m}
}
