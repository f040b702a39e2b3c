// The table of localized views. Its entries are the subtrees beside the path from the place 0 to a process: a−1 for each
// level above it, then its own a children. The entries from level t on are all of the subtree of its ancestor at level t,
// but for the path itself. The lowest id of an entry that is not known to be dead is found by going up one by one, as the
// thesis looks for a root (3.1.5), past ids that the detector reports.

package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// slots returns how many entries the table has.
func (l *Localized) slots(s *LocalState) int { return l.slot(int(s.level)) + l.tree.fanout() }

// slot returns the first entry of a level.
func (l *Localized) slot(level int) int { return level * (l.tree.fanout() - 1) }

// place returns the top of an entry's subtree.
func (l *Localized) place(s *LocalState, i int) protocol.Rank {
	level := min(i/(l.tree.fanout()-1), int(s.level))
	link := i - l.slot(level)
	if level < int(s.level) && link >= l.tree.link(s.self, level) {
		link++ // the path is no entry
	}
	return l.tree.child(l.tree.ancestor(s.self, level), link)
}

// entry returns the entry that r is in; −1 if r is on the path.
func (l *Localized) entry(s *LocalState, r protocol.Rank) int {
	below, route := l.tree.route(r)
	for level := 0; level < below; level++ {
		link := int(route>>(l.tree.digit*level)) & (l.tree.fanout() - 1)
		if level == int(s.level) {
			return l.slot(level) + link
		}
		if path := l.tree.link(s.self, level); link != path {
			if link > path {
				link--
			}
			return l.slot(level) + link
		}
	}
	return -1
}

// end returns the end of the ids in the latest view accepted.
func (s *LocalState) end() protocol.Rank { return s.content[s.number&1].end }

// learn notes a death, if it matters here.
func (l *Localized) learn(s *LocalState, r protocol.Rank) {
	if r == s.self {
		return
	}
	i := l.entry(s, r)
	if i < 0 {
		s.dead |= 1 << l.tree.level(r)
	} else if s.low[i] == r {
		l.pass(s, i, r+1)
	}
}

// pass notes that all of an entry below r is dead.
func (l *Localized) pass(s *LocalState, i int, r protocol.Rank) {
	if s.low[i] < r {
		s.low[i] = l.tree.from(l.place(s, i), r)
		s.sent &^= 1 << i
	}
}

// hold takes the place on the own path at a level: the process that asks for it to be covered knows that all lower ids
// in its subtree are dead.
func (l *Localized) hold(s *LocalState, level int) {
	for ; level < int(s.top); s.top-- {
		above := int(s.top) - 1
		s.dead |= 1 << above
		for i := l.slot(above); i < l.slot(above+1); i++ {
			l.pass(s, i, s.self+1)
		}
	}
	l.rise(s)
}

// rise takes the places above as far as all processes with a better right are dead.
func (l *Localized) rise(s *LocalState) {
	for s.member && s.top > 0 {
		above := int(s.top) - 1
		if s.dead>>above&1 == 0 {
			return
		}
		for i := l.slot(above); i < l.slot(above+1); i++ {
			if s.low[i] < s.self {
				return
			}
		}
		s.top--
	}
}

// watched finds a process for which as is true, among those of whose death this process must hear: the ones below it in
// the tree, the one above, and the one that it asks to let it in.
func (l *Localized) watched(s *LocalState, as func(protocol.Rank) bool) (protocol.Rank, bool) {
	if s.seeks() && as(s.contact) {
		return s.contact, true
	}
	if !s.member {
		return 0, false
	}
	for i, end := l.slot(int(s.top)), s.end(); i < l.slots(s); i++ {
		if s.low[i] < end && as(s.low[i]) {
			return s.low[i], true
		}
	}
	if up := l.above(s); up >= 0 && as(up) {
		return up, true
	}
	return 0, false
}

// above returns the holder of the place above, as far as is known; −1 for the root.
func (l *Localized) above(s *LocalState) protocol.Rank {
	if s.top == 0 {
		return -1
	}
	level := int(s.top) - 1
	if s.dead>>level&1 == 0 {
		return l.tree.ancestor(s.self, level)
	}
	return slices.Min(s.low[l.slot(level):l.slot(level+1)])
}

// apply makes the changes of the latest view accepted known for good.
func (l *Localized) apply(s *LocalState) {
	c := &s.content[s.number&1]
	for _, change := range c.changes[:c.n] {
		if i := l.entry(s, change.At()); i >= 0 {
			s.clean[i] = l.cleaned(s, i)
		} else {
			l.applyAbove(s, change, c.base)
		}
	}
}

// applyAbove notes which processes were removed above. A process in a subtree whose members are all removed has joined
// with this view or later.
func (l *Localized) applyAbove(s *LocalState, change LocalChange, base protocol.Rank) {
	top := l.tree.level(change.At())
	s.removed |= 1 << top
	if !change.All() {
		return
	}
	for level := top; level < int(s.level); level++ {
		if l.tree.ancestor(s.self, level) < base {
			s.removed |= 1 << level
		}
	}
	for i := l.slot(top); i < l.slots(s); i++ {
		s.clean[i] = max(s.clean[i], base)
	}
}

// cleaned returns what clean is after the latest view accepted.
func (l *Localized) cleaned(s *LocalState, i int) protocol.Rank {
	at, clean := l.place(s, i), s.clean[i]
	c := &s.content[s.number&1]
	for again := true; again; {
		again = false
		for _, change := range c.changes[:c.n] {
			switch {
			case change == localAll(at) && clean < c.base:
				clean, again = c.base, true
			case change == LocalChange(l.tree.from(at, clean)):
				clean, again = change.At()+1, true
			}
		}
	}
	return clean
}

// heed notes the deaths that a proposal reports.
func (l *Localized) heed(s *LocalState, c *localContent) {
	for _, change := range c.changes[:c.n] {
		at := change.At()
		if !change.All() {
			l.learn(s, at)
			continue
		}
		if i := l.entry(s, at); i >= 0 && at == l.place(s, i) {
			l.pass(s, i, c.base)
		} else if i >= 0 && s.low[i] < c.base && l.tree.contains(at, s.low[i]) {
			l.pass(s, i, s.low[i]+1)
		}
	}
	l.rise(s)
}
