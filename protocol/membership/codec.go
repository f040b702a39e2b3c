package membership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Letters as bytes. Everything is a varint; lists begin with their length; ids are written as differences, owners as
// runs, so that a view takes about two bytes a member.

// ErrLetter is returned for bytes that are no letter.
var ErrLetter = errors.New("not a membership letter")

// idMax bounds ids, and with them what a letter can make a reader allocate.
const idMax = 1 << 24

// Append appends the message to b.
func (m Message) Append(b []byte) []byte {
	l := m.Letter
	b = append(b, byte(l.Kind), l.flags(), l.Bits)
	for _, x := range []uint64{uint64(m.From), uint64(m.To), uint64(m.At), uint64(l.Attempt), l.Number, uint64(l.Ballot), uint64(l.Asked)} {
		b = binary.AppendUvarint(b, x)
	}
	b = binary.AppendUvarint(b, uint64(l.Who.ID))
	b = binary.AppendUvarint(b, uint64(l.Who.Incarnation))
	b = appendRanks(b, l.Route)
	b = appendRanks(b, l.Missing)
	if l.Base != nil {
		b = l.Base.append(b)
	}
	if l.Value != nil {
		b = l.Value.append(b)
	}
	return b
}

func (l *Letter) flags() (f byte) {
	for i, set := range []bool{l.Flat, l.Open, l.Certain, l.Willed, l.Base != nil, l.Value != nil} {
		if set {
			f |= 1 << i
		}
	}
	return f
}

func appendRanks(b []byte, list []protocol.Rank) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	last := protocol.Rank(0)
	for _, r := range list {
		b = binary.AppendVarint(b, int64(r-last)) // a gap is −1
		last = r
	}
	return b
}

func (v *View) append(b []byte) []byte {
	b = binary.AppendUvarint(b, v.Number)
	b = binary.AppendUvarint(b, v.Epoch)
	for _, list := range [][]Member{v.Members, v.Gone} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		last := protocol.Rank(0)
		for _, m := range list {
			b = binary.AppendUvarint(b, uint64(m.ID-last))
			b = binary.AppendUvarint(b, uint64(m.Incarnation))
			last = m.ID
		}
	}
	b = appendRanks(b, v.Leaving)
	if v.Owners == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(v.Owners))+1)
	b = appendRuns(b, v.Owners, func(o protocol.Rank) uint64 { return uint64(o + 1) })
	return appendRuns(b, v.Since, func(n uint64) uint64 { return n })
}

// appendRuns appends a list as runs of equal elements: how many, and which.
func appendRuns[T comparable](b []byte, list []T, number func(T) uint64) []byte {
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n] == list[0] {
			n++
		}
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.AppendUvarint(b, number(list[0]))
		list = list[n:]
	}
	return b
}

// Decode reads a message. What it returns is sound: a letter has what its kind
// needs, lists are in order.
func Decode(b []byte) (Message, error) {
	r := reader{protocol.Reader{Rest: b}}
	l := &Letter{Kind: Kind(r.Byte())}
	flags := r.Byte()
	l.Bits = r.Byte()
	m := Message{Letter: l, From: r.small(), To: r.small(), At: r.small()}
	l.Attempt, l.Number, l.Ballot, l.Asked = r.small(), r.Uvarint(), Ballot(r.Uvarint()), Ballot(r.Uvarint())
	l.Flat, l.Open, l.Certain, l.Willed = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	l.Who = Member{protocol.Rank(r.below(idMax)), r.small()}
	l.Route, l.Missing = r.ranks(), r.ranks()
	if flags&16 != 0 {
		l.Base = r.view()
	}
	if flags&32 != 0 {
		l.Value = r.view()
	}
	switch {
	case r.Bad || len(r.Rest) > 0 || flags>>6 != 0:
		return Message{}, fmt.Errorf("%w: %d bytes", ErrLetter, len(b))
	case !l.sound():
		return Message{}, fmt.Errorf("%w: a %v without what it needs", ErrLetter, l.Kind)
	}
	return m, nil
}

// sound reports whether a letter has what its kind needs.
func (l *Letter) sound() bool {
	switch {
	case l.Base != nil && l.Value != nil && l.Value.Number != l.Base.Number+1:
		return false
	case len(l.Route) > 0 && (l.Bits < 1 || l.Bits > bitsMax):
		return false
	case slices.Contains(l.Missing, gap): // a set has no place for it
		return false
	}
	for i, id := range l.Route {
		if id == gap && i > 0 && l.leaf(i) {
			continue
		}
		in := l.Base != nil && l.Base.Last(id) > 0 || l.Value != nil && l.Value.Last(id) > 0 || id == l.Who.ID
		if !in {
			return false
		}
	}
	switch l.Kind {
	case Propose:
		return l.Base != nil && l.Value != nil && len(l.Route) > 0
	case Prepare, Confirm, Stable:
		return l.Base != nil && len(l.Route) > 0
	case Decided:
		return l.Base != nil
	case Fence, Wish: // the route is a list of members, not a tree
		return l.Base != nil && !slices.Contains(l.Route, gap)
	case Promise:
		return (l.Ballot != 0) == (l.Value != nil)
	case Will, Failure:
		return (l.Value == nil) == (l.Base == nil)
	case Accept, Present, Reject, Noted, Join, Leave, Record:
		return true
	}
	return false // not for others
}

type reader struct{ protocol.Reader }

func (r *reader) below(limit uint64) uint64 {
	x := r.Uvarint()
	if x >= limit {
		r.Bad = true
		return 0
	}
	return x
}

func (r *reader) small() uint32 { return uint32(r.below(1 << 32)) }

func (r *reader) ranks() []protocol.Rank {
	n := r.Count()
	if n == 0 {
		return nil
	}
	list := make([]protocol.Rank, n)
	last := int64(0)
	for i := range list {
		if last += r.Varint(); r.Bad || last < int64(gap) || last >= idMax {
			r.Bad = true
			return nil
		}
		list[i] = protocol.Rank(last)
	}
	return list
}

func (r *reader) members() []Member {
	n := r.Count()
	if n == 0 {
		return nil
	}
	list := make([]Member, n)
	last := uint64(0)
	for i := range list {
		step := r.below(idMax)
		if last += step; i > 0 && step == 0 || last >= idMax {
			r.Bad = true
			return nil
		}
		list[i] = Member{protocol.Rank(last), r.small()}
		if list[i].Incarnation == 0 {
			r.Bad = true
		}
	}
	return list
}

// tasksMax bounds the tasks of a view.
const tasksMax = 1 << 21

func (r *reader) view() *View {
	v := &View{Number: r.Uvarint(), Epoch: r.Uvarint(), Members: r.members(), Gone: r.members(), Leaving: r.ranks()}
	tasks := r.below(tasksMax)
	for i, id := range v.Leaving {
		if _, in := v.Find(id); !in || i > 0 && id <= v.Leaving[i-1] {
			r.Bad = true
		}
	}
	if r.Bad || len(v.Members) == 0 {
		r.Bad = true
		return nil
	}
	if tasks > 0 {
		v.Owners = readRuns(r, make([]protocol.Rank, 0, min(int(tasks), 1<<12)), tasks-1, func() protocol.Rank { return protocol.Rank(r.below(idMax)) - 1 })
		v.Since = readRuns(r, nil, uint64(len(v.Owners)), r.Uvarint)
	}
	if r.Bad {
		return nil
	}
	return v.signed()
}

// readRuns reads left elements that appendRuns has written, and adds them to a list.
func readRuns[T any](r *reader, list []T, left uint64, element func() T) []T {
	for left > 0 && !r.Bad {
		n, x := r.Uvarint(), element()
		if n == 0 || n > left {
			r.Bad = true
			return nil
		}
		left -= n
		for range n {
			list = append(list, x)
		}
	}
	return list
}
