package membership

import (
	"math"

	"github.com/coppice-go/coppice/protocol"
)

// The tests that attack localized views use these accessors.

func (l *Localized) First() protocol.Rank             { return l.first }
func (l *Localized) Contains(q, r protocol.Rank) bool { return l.tree.contains(q, r) }
func (l *Localized) Level(r protocol.Rank) int        { return l.tree.level(r) }
func (s *LocalState) Settled() bool                   { return s.settled }
func (s *LocalState) Query() protocol.Rank            { return s.query }

// Plant plants a mistake: before runs before each Receive, Notify and Next, after runs after it, and told says that the
// call was Notify. Either may be nil.
func (w *LocalWatched) Plant(before func(l *Localized, s *LocalState), after func(l *Localized, s *LocalState, told bool)) {
	w.machine = &localPlanted{w.members, before, after}
}

type localPlanted struct {
	*Localized
	before func(*Localized, *LocalState)
	after  func(*Localized, *LocalState, bool)
}

func (p *localPlanted) around(s *LocalState, told bool, do func()) {
	if p.before != nil {
		p.before(p.Localized, s)
	}
	do()
	if p.after != nil {
		p.after(p.Localized, s, told)
	}
}

func (p *localPlanted) Receive(s *LocalState, now protocol.Time, from protocol.Rank, m LocalMessage) {
	p.around(s, false, func() { p.Localized.Receive(s, now, from, m) })
}

func (p *localPlanted) Notify(s *LocalState, now protocol.Time, n protocol.Notice) {
	p.around(s, true, func() { p.Localized.Notify(s, now, n) })
}

func (p *localPlanted) Next(s *LocalState, now protocol.Time) (a protocol.Action[LocalMessage]) {
	p.around(s, false, func() { a = p.Localized.Next(s, now) })
	return a
}

// LocalMistakes are mistakes that a Localized could make.
var LocalMistakes = []struct {
	Name   string
	Before func(*Localized, *LocalState)
	After  func(*Localized, *LocalState, bool)
}{
	{
		Name: "accepts before those below have", Before: func(_ *Localized, s *LocalState) {
			if s.proposing && s.asker >= 0 {
				s.acked = s.sent
			}
		},
	},
	{
		Name: "opens what it has accepted", Before: func(l *Localized, s *LocalState) {
			if s.member && s.proposing && s.asker >= 0 && s.delivered == s.open {
				l.opens(s, s.lastSize)
			}
		},
	},
	{
		Name: "a new root forgets what a dead one proposed", Before: func(_ *Localized, s *LocalState) {
			if s.top == 0 && s.ballot != s.self && s.open < s.number && s.delivered == s.open {
				old := s.content[s.number&1]
				s.number--
				s.content[s.number&1] = localContent{base: old.base, end: old.base}
				s.content[(s.number+1)&1].n = 0
			}
		},
	},
	{
		Name: "asks nobody in the place of one that died", After: func(l *Localized, s *LocalState, told bool) {
			if told && s.proposing {
				s.sent = math.MaxUint64
			}
		},
	},
	{
		Name: "is root as soon as its ancestors are dead", Before: func(_ *Localized, s *LocalState) {
			if s.member && s.dead == 1<<s.level-1 {
				s.top = 0
			}
		},
	},
	{
		Name: "answers only who asked first", After: func(_ *Localized, s *LocalState, _ bool) {
			if s.proposing && s.sent>>63 != 0 {
				s.answered = true
			} else if s.answered {
				s.sent |= 1 << 63
			}
		},
	},
	{
		Name: "does not take the deaths that acceptances tell of", After: func(_ *Localized, s *LocalState, _ bool) {
			if s.asker >= 0 && s.proposing && s.delivered+1 >= s.number {
				s.content[(s.number+1)&1].n = 0
			}
		},
	},
	{
		Name: "a new root does not look for what its predecessor was told", Before: func(_ *Localized, s *LocalState) {
			if s.top == 0 && s.open == s.number {
				s.ballot = s.self
			}
		},
	},
	{
		Name: "leaves a subtree that is gone to others", Before: func(_ *Localized, s *LocalState) {
			s.told = math.MaxUint64
		},
	},
	{
		Name: "covers less than it was asked to", After: func(l *Localized, s *LocalState, _ bool) {
			if s.proposing && s.asker >= 0 {
				s.acked |= 1 << (l.slots(s) - 1)
			}
		},
	},
	{
		Name: "does not know a later proposer from a dead one", Before: func(_ *Localized, s *LocalState) {
			if s.asker >= 0 {
				s.ballot = 0
			}
		},
	},
	{
		Name: "takes the view that another proposer left unfinished for open", After: func(l *Localized, s *LocalState, _ bool) {
			if s.member && !s.settled && s.proposing && s.delivered == s.open && s.ballot > 0 {
				l.opens(s, s.lastSize)
			}
		},
	},
	{
		Name: "keeps the child that is dead", After: func(l *Localized, s *LocalState, told bool) {
			if i := l.slots(s) - 1; told && s.low[i] != l.place(s, i) {
				s.low[i] = localNone
			}
		},
	},
	{
		Name: "leads without a word from an open view", Before: func(_ *Localized, s *LocalState) {
			s.vouched = true
		},
	},
}

// Neighbours returns the process above this one in the tree, −1 for the root, and those below it.
func (l *Localized) Neighbours(s *LocalState) (above protocol.Rank, below []protocol.Rank) {
	for i := l.slot(int(s.top)); i < l.slots(s); i++ {
		if s.low[i] < s.end() {
			below = append(below, s.low[i])
		}
	}
	return l.above(s), below
}

// View returns the number of the latest view that the user knows and how many processes accepted it; 0 before the first.
func (s *LocalState) View() (number uint64, size int) {
	return uint64(s.delivered), int(s.lastSize)
}
