package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/protocol"
)

// Member is one incarnation of a process: the next one under the same id has a higher number. The first is 1.
type Member struct {
	ID          protocol.Rank
	Incarnation uint32
}

func (m Member) String() string {
	if m.Incarnation == 1 {
		return fmt.Sprint(m.ID)
	}
	return fmt.Sprintf("%d.%d", m.ID, m.Incarnation)
}

func (m Member) compare(o Member) int {
	return cmp.Or(cmp.Compare(m.ID, o.ID), cmp.Compare(m.Incarnation, o.Incarnation))
}

// View says which processes are members, and which of them owns which task. Views are shared and never change.
type View struct {
	Number  uint64
	Members []Member // in the order of their ids
	// Gone are the last incarnations of ids that are members no more. An incarnation that has gone never comes back.
	Gone []Member
	// Leaving are the ids of members that are about to leave, in order: they get nothing that others do not have,
	// too, and what they own goes to others with the next epoch.
	Leaving []protocol.Rank `json:",omitempty"`
	// Owners is, by task, the id of its owner, −1 for none; nil: there are no tasks.
	Owners []protocol.Rank
	// Since is, by task, the number of the view that gave it to its owner: a process that has seen only some of the
	// views knows which attempt of a task it is.
	Since []uint64 `json:",omitempty"`
	// Epoch is the last epoch that a view has committed: all tasks had saved it. A view that gives tasks of live
	// processes to others commits one.
	Epoch uint64

	print fingerprint
}

// NewView returns a view; the members are sorted.
func NewView(number uint64, members, gone []Member, owners []protocol.Rank) *View {
	v := &View{Number: number, Members: slices.Clone(members), Gone: slices.Clone(gone), Owners: slices.Clone(owners), Since: slices.Repeat([]uint64{number}, len(owners))}
	slices.SortFunc(v.Members, byID)
	slices.SortFunc(v.Gone, byID)
	return v.signed()
}

// First returns the first view of n processes, which every process knows without a message. owners may be nil.
func First(n int, owners []protocol.Rank) *View {
	v := &View{Number: 1, Members: make([]Member, n), Owners: slices.Clone(owners), Since: slices.Repeat([]uint64{1}, len(owners))}
	for i := range v.Members {
		v.Members[i] = Member{protocol.Rank(i), 1}
	}
	return v.signed()
}

func byID(a, b Member) int { return int(a.ID) - int(b.ID) }

func (v *View) signed() *View {
	f := fingerprint{}.with(v.Number)
	for _, list := range [][]Member{v.Members, v.Gone} {
		for _, m := range list {
			f = f.member(m)
		}
		f = f.with(uint64(len(list)))
	}
	if len(v.Leaving) > 0 {
		f = f.ranks(v.Leaving)
	}
	for _, o := range v.Owners {
		f = f.with(uint64(uint32(o)))
	}
	for _, n := range v.Since {
		f = f.with(n)
	}
	v.print = f.with(v.Epoch)
	return v
}

// Same reports whether two views are the same, in everything.
func (v *View) Same(w *View) bool {
	return v == w || v != nil && w != nil && v.print == w.print
}

// Find returns the member of an id.
func (v *View) Find(id protocol.Rank) (Member, bool) {
	if uint(id) < uint(len(v.Members)) && v.Members[id].ID == id { // no id below it is missing
		return v.Members[id], true
	}
	return find(v.Members, id)
}

func find(list []Member, id protocol.Rank) (Member, bool) {
	i, ok := place(list, id)
	if !ok {
		return Member{}, false
	}
	return list[i], true
}

// place returns where an id is in a list, or would be.
func place(list []Member, id protocol.Rank) (int, bool) {
	if uint(id) < uint(len(list)) && list[id].ID == id { // no id below it is missing
		return int(id), true
	}
	at, end := 0, len(list)
	for at < end {
		if mid := (at + end) / 2; list[mid].ID < id {
			at = mid + 1
		} else {
			end = mid
		}
	}
	return at, at < len(list) && list[at].ID == id
}

// Has reports whether this incarnation of a process is a member.
func (v *View) Has(m Member) bool {
	in, ok := v.Find(m.ID)
	return ok && in == m
}

// Last returns the last incarnation of an id that is or was a member, as far as the view says; 0: none.
func (v *View) Last(id protocol.Rank) uint32 {
	m, ok := v.Find(id)
	if !ok {
		m, _ = find(v.Gone, id)
	}
	return m.Incarnation
}

// Past reports whether this incarnation of a process was a member, or a later one is or was, and this one is no longer.
func (v *View) Past(m Member) bool {
	if in, ok := v.Find(m.ID); ok {
		return m.Incarnation < in.Incarnation
	}
	gone, was := find(v.Gone, m.ID)
	return was && m.Incarnation <= gone.Incarnation
}

// Without returns the next view, without some members.
func (v *View) Without(out func(Member) bool, adopt bool) *View {
	return v.without(out, adopt, nil, v.Leaving)
}

// without is Without where members can own only so many tasks, and some leave.
func (v *View) without(out func(Member) bool, adopt bool, limitOf func(Member) int, leaving []protocol.Rank) *View {
	all := len(v.Members) + len(v.Gone)
	next := &View{Number: v.Number + 1, Members: make([]Member, 0, len(v.Members)), Gone: append(make([]Member, 0, all), v.Gone...), Epoch: v.Epoch}
	for _, m := range v.Members {
		if !out(m) {
			next.Members = append(next.Members, m)
			continue
		}
		next.Gone = append(next.Gone, m)
	}
	slices.SortFunc(next.Gone, byID)
	next.left(leaving)
	return next.owned(v, assign(v.Owners, next.Members, adopt, next.limits(limitOf)))
}

// With returns the next view, with more members, none of which is or was a member.
func (v *View) With(joiners []Member, adopt bool) *View { return v.with(joiners, adopt, v.Leaving) }

// with is With where some members leave.
func (v *View) with(joiners []Member, adopt bool, leaving []protocol.Rank) *View {
	next := &View{Number: v.Number + 1, Members: append(slices.Clone(v.Members), joiners...), Epoch: v.Epoch}
	slices.SortFunc(next.Members, byID)
	for _, m := range v.Gone {
		if _, back := next.Find(m.ID); !back {
			next.Gone = append(next.Gone, m)
		}
	}
	next.left(leaving)
	return next.owned(v, assign(v.Owners, next.Members, adopt, limits{}))
}

// Balanced returns the next view if tasks of leaving members go to others, and tasks of members that own many to those
// that own few, as far as these can own more, and an epoch is committed with that; nil: nothing is to be moved.
func (v *View) Balanced(epoch uint64, limitOf func(Member) int) *View {
	owners := balance(v.Owners, v.Members, v.limits(limitOf))
	if owners == nil {
		return nil
	}
	next := &View{Number: v.Number + 1, Members: v.Members, Gone: v.Gone, Leaving: v.Leaving, Epoch: epoch}
	return next.owned(v, owners)
}

// owned sets the owners of a view, which follows another one, and returns it.
func (v *View) owned(before *View, owners []protocol.Rank) *View {
	v.Owners, v.Since = owners, before.Since
	for t, o := range owners {
		// A process that comes back has forgotten what it owned.
		if was, _ := before.Find(o); o != before.Owners[t] || o != nobody && !v.Has(was) {
			if &v.Since[0] == &before.Since[0] { // it is shared so far
				v.Since = slices.Clone(before.Since)
			}
			v.Since[t] = v.Number
		}
	}
	return v.signed()
}

func (v *View) String() string {
	if v == nil {
		return "no view"
	}
	return fmt.Sprintf("view %d {%s}", v.Number, strings.Trim(fmt.Sprint(v.Members), "[]"))
}
