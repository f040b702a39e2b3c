package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// nobody owns a task whose owner is gone and that nobody has adopted.
const nobody protocol.Rank = -1

// limit is how many tasks a member can own, as it said.
type limit struct {
	who  Member
	most int
}

// unlimited is the limit of those who said nothing.
const unlimited = int(^uint(0) >> 1)

// Limit tells that a member can own so many tasks: its own, and those of the dead that
// it is given. It is for the proposer to know, whose map of owners is decided with the
// view; so processes need not know the same. A member of which nothing is known, and
// one of which the number is negative, can own any number.
func (p *Protocol) Limit(s *State, who Member, most int) {
	i, known := slices.BinarySearchFunc(s.limits, who, func(l limit, m Member) int { return l.who.compare(m) })
	s.limits = slices.Clone(s.limits)
	switch {
	case known && most >= 0:
		s.limits[i].most = most
	case known:
		s.limits = slices.Delete(s.limits, i, i+1)
	case most >= 0:
		s.limits = slices.Insert(s.limits, i, limit{who, most})
	}
}

// forgetLimits forgets those who are in no more.
func (s *State) forgetLimits() {
	if len(s.limits) > 0 {
		s.limits = slices.DeleteFunc(slices.Clone(s.limits), func(l limit) bool { return s.view.Past(l.who) })
	}
}

// LimitOf is how many tasks a member can own, as far as this process knows.
func (s *State) LimitOf(m Member) int {
	for _, l := range s.limits {
		if l.who == m {
			return l.most
		}
	}
	return unlimited
}

// limits are how many tasks members can own.
type limits struct {
	of   func(Member) int // nil: any number
	view *View            // of whose members some leave; nil: none does
}

// limits are those of the view's members, of whom some may leave.
func (v *View) limits(of func(Member) int) limits {
	if len(v.Leaving) == 0 {
		return limits{of: of}
	}
	return limits{of, v}
}

// staying is the limit of a member that stays; one that leaves can own none.
func (l limits) staying(m Member) int {
	if l.view != nil && l.view.Leaves(m.ID) {
		return 0
	}
	return l.any(m)
}

// any is the limit of a member whether it leaves or not.
func (l limits) any(m Member) int {
	if l.of == nil {
		return unlimited
	}
	return l.of(m)
}

// assign returns who owns which task among these members: whoever did, if it is
// still in. The others are orphans. With adopt they go, in order, each to the
// member that then owns the fewest tasks, of those that can own more; the lowest of
// several. One that leaves is given a task only if nobody else can own it: what is nobody's is lost.
// What nobody can own, and what was nobody's, is nobody's. It is a function of
// its arguments: whoever proposes the same change, and knows of the same limits,
// proposes the same owners.
func assign(owners []protocol.Rank, members []Member, adopt bool, limit limits) []protocol.Rank {
	if owners == nil {
		return nil
	}
	var loads, mosts [8]int // enough for most groups
	load, most := append(loads[:0], make([]int, len(members))...), mosts[:0]
	for _, m := range members {
		most = append(most, limit.staying(m))
	}
	var orphans []int
	for t, o := range owners {
		i, in := place(members, o)
		if in {
			load[i]++
		} else if o != nobody {
			orphans = append(orphans, t)
		}
	}
	if orphans == nil { // nothing changes
		return owners
	}
	next := slices.Clone(owners)
	for _, t := range orphans {
		next[t] = nobody
	}
	if !adopt {
		return next
	}
	for _, t := range orphans {
		i := least(load, most)
		if i < 0 && limit.view != nil {
			for j, m := range members {
				most[j] = limit.any(m)
			}
			i = least(load, most)
		}
		if i >= 0 {
			load[i]++
			next[t] = members[i].ID
		}
	}
	return next
}

// balance moves tasks, the last first, from members that leave, and then from the one that owns most, to the one that owns
// fewest, of those that stay and can own more, until that makes no difference; nil: it makes none.
func balance(owners []protocol.Rank, members []Member, limit limits) []protocol.Rank {
	var loads, mosts [8]int // enough for most groups
	load, most := append(loads[:0], make([]int, len(members))...), mosts[:0]
	for _, m := range members {
		most = append(most, limit.staying(m))
	}
	for _, o := range owners {
		if i, in := place(members, o); in {
			load[i]++
		}
	}
	leaves := func(i int) bool { return limit.view != nil && limit.view.Leaves(members[i].ID) }
	var next []protocol.Rank
	for {
		few, many := least(load, most), 0
		for i := range load {
			if first := leaves(i) && load[i] > 0; first || load[i] > load[many] {
				if many = i; first {
					break
				}
			}
		}
		if few < 0 || load[many] == 0 || load[many]-load[few] <= 1 && !leaves(many) {
			return next
		}
		if next == nil {
			next = slices.Clone(owners)
		}
		t := len(next) - 1 // nobody who has got a task gives one
		for next[t] != members[many].ID {
			t--
		}
		next[t] = members[few].ID
		load[many]--
		load[few]++
	}
}

// Balance tells that all tasks have saved an epoch in a view and wait for it to be committed: if there
// is nothing else to decide, the next view moves tasks from those that own many to those that
// own few, and commits the epoch. It is for the one who proposes; the wish ends with the view.
// If the view in force is another one, or not open, there is none: some tasks may have begun again since.
func (p *Protocol) Balance(s *State, view, epoch uint64) {
	if s.open && s.view.Number == view {
		s.wish = epoch
	}
}

// Unbalanced tells whether there is anything to be moved, if nothing else is to be decided.
func (s *State) Unbalanced() bool {
	return balance(s.view.Owners, s.view.Members, s.view.limits(s.LimitOf)) != nil
}

// balanced is the next view if there is such a wish, and something to be moved.
func (s *State) balanced() *View {
	if s.wish <= s.view.Epoch {
		return nil
	}
	return s.view.Balanced(s.wish, s.LimitOf)
}

// least is the first of the smallest loads that are below what is allowed; −1: none is.
func least(load, most []int) int {
	best := -1
	for i, n := range load {
		if n < most[i] && (best < 0 || n < load[best]) {
			best = i
		}
	}
	return best
}
