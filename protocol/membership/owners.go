package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// nobody stands for the owner of a task whose owner is gone and that no process has adopted.
const nobody protocol.Rank = -1

// limit is how many tasks a member can own, as it reported.
type limit struct {
	who  Member
	most int
}

// unlimited is the limit of members that reported none.
const unlimited = int(^uint(0) >> 1)

// Limit notes how many tasks a member can own: its own, and those of dead processes that it is given. Only the proposer
// needs to know it, because its map of owners is decided with the view; so processes need not know the same. A member
// without a known limit, or with a negative one, can own any number.
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

// forgetLimits forgets the limits of incarnations that are members no more.
func (s *State) forgetLimits() {
	if len(s.limits) > 0 {
		s.limits = slices.DeleteFunc(slices.Clone(s.limits), func(l limit) bool { return s.view.Past(l.who) })
	}
}

// LimitOf returns how many tasks a member can own, as far as this process knows.
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
	view *View            // some of its members leave; nil: none does
}

// limits returns the limits of the view's members, some of which may leave.
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

// assign returns which of these members owns which task: the owner before, if it is still a member. The other tasks are
// orphans. With adopt they go, in order, each to the member that then owns the fewest tasks, of those that can own more;
// the lowest of several. A leaving member gets a task only if no other can own it: a task without an owner is lost. A
// task that no member can own, or that had no owner, has none. The result is a function of the arguments: processes
// that propose the same change, and know of the same limits, propose the same owners.
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

// balance moves tasks, the last first, from leaving members, and then from the member that owns most, to the one that
// owns fewest, of those that stay and can own more, until that makes no difference; nil: it makes none.
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
		t := len(next) - 1 // no member that has got a task gives one
		for next[t] != members[many].ID {
			t--
		}
		next[t] = members[few].ID
		load[many]--
		load[few]++
	}
}

// Balance notes that all tasks have saved an epoch in a view and wait for it to be committed: if there is nothing else
// to decide, the next view moves tasks from members that own many to those that own few, and commits the epoch. The
// proposer acts on it; the wish ends with the view. If another view is in force, or the view is not open, there is no
// wish: some tasks may have begun again since.
func (p *Protocol) Balance(s *State, view, epoch uint64) {
	if s.open && s.view.Number == view {
		s.wish = epoch
	}
}

// Unbalanced reports whether there is anything to be moved, if nothing else is to be decided.
func (s *State) Unbalanced() bool {
	return balance(s.view.Owners, s.view.Members, s.view.limits(s.LimitOf)) != nil
}

// balanced returns the next view if there is such a wish, and something to be moved.
func (s *State) balanced() *View {
	if s.wish <= s.view.Epoch {
		return nil
	}
	return s.view.Balanced(s.wish, s.LimitOf)
}

// least returns the first of the smallest loads that are below what is allowed; −1: none is.
func least(load, most []int) int {
	best := -1
	for i, n := range load {
		if n < most[i] && (best < 0 || n < load[best]) {
			best = i
		}
	}
	return best
}
