package membership

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// Letters as bytes. Everything is a varint; lists begin with their length; ids
// are written as differences, owners as runs, so that a view takes about two
// bytes a member.

// ErrLetter: bytes that are no letter.
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
	if v.Owners == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(v.Owners))+1)
	for i := 0; i < len(v.Owners); {
		n := 1
		for i+n < len(v.Owners) && v.Owners[i+n] == v.Owners[i] {
			n++
		}
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.AppendUvarint(b, uint64(v.Owners[i]+1))
		i += n
	}
	for i := 0; i < len(v.Since); {
		n := 1
		for i+n < len(v.Since) && v.Since[i+n] == v.Since[i] {
			n++
		}
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.AppendUvarint(b, v.Since[i])
		i += n
	}
	return b
}

// Decode reads a message. What it returns is sound: a letter has what its kind
// needs, lists are in order.
func Decode(b []byte) (Message, error) {
	r := reader{b: b}
	l := &Letter{Kind: Kind(r.byte())}
	flags := r.byte()
	l.Bits = r.byte()
	m := Message{Letter: l, From: r.small(), To: r.small(), At: r.small()}
	l.Attempt, l.Number, l.Ballot, l.Asked = r.small(), r.uvarint(), Ballot(r.uvarint()), Ballot(r.uvarint())
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
	case r.bad || len(r.b) > 0 || flags>>6 != 0:
		return Message{}, fmt.Errorf("%w: %d bytes", ErrLetter, len(b))
	case !l.sound():
		return Message{}, fmt.Errorf("%w: a %v without what it needs", ErrLetter, l.Kind)
	}
	return m, nil
}

// sound tells whether a letter has what its kind needs.
func (l *Letter) sound() bool {
	switch {
	case l.Base != nil && l.Value != nil && l.Value.Number != l.Base.Number+1:
		return false
	case len(l.Route) > 0 && (l.Bits < 1 || l.Bits > bitsMax):
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
	case Promise:
		return (l.Ballot != 0) == (l.Value != nil)
	case Will, Failure:
		return (l.Value == nil) == (l.Base == nil)
	case Accept, Present, Reject, Noted, Join, Record:
		return true
	}
	return false // not for others
}

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	x := r.b[0]
	r.b = r.b[1:]
	return x
}

func (r *reader) uvarint() uint64 {
	x, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return x
}

func (r *reader) below(limit uint64) uint64 {
	x := r.uvarint()
	if x >= limit {
		r.bad = true
		return 0
	}
	return x
}

func (r *reader) small() uint32 { return uint32(r.below(1 << 32)) }

// count reads the length of a list whose elements take at least a byte each.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) ranks() []protocol.Rank {
	n := r.count()
	if n == 0 {
		return nil
	}
	list := make([]protocol.Rank, n)
	last := int64(0)
	for i := range list {
		x, k := binary.Varint(r.b)
		if last += x; k <= 0 || last < int64(gap) || last >= idMax {
			r.bad, r.b = true, nil
			return nil
		}
		r.b = r.b[k:]
		list[i] = protocol.Rank(last)
	}
	return list
}

func (r *reader) members() []Member {
	n := r.count()
	if n == 0 {
		return nil
	}
	list := make([]Member, n)
	last := uint64(0)
	for i := range list {
		step := r.below(idMax)
		if last += step; i > 0 && step == 0 || last >= idMax {
			r.bad = true
			return nil
		}
		list[i] = Member{protocol.Rank(last), r.small()}
		if list[i].Incarnation == 0 {
			r.bad = true
		}
	}
	return list
}

// tasksMax bounds the tasks of a view.
const tasksMax = 1 << 21

func (r *reader) view() *View {
	v := &View{Number: r.uvarint(), Epoch: r.uvarint(), Members: r.members(), Gone: r.members()}
	tasks := r.below(tasksMax)
	if r.bad || len(v.Members) == 0 {
		r.bad = true
		return nil
	}
	if tasks > 0 {
		v.Owners = make([]protocol.Rank, 0, min(int(tasks), 1<<12))
		for left := tasks - 1; left > 0 && !r.bad; {
			n, owner := r.uvarint(), protocol.Rank(r.below(idMax))-1
			if n == 0 || n > left {
				r.bad = true
				return nil
			}
			left -= n
			for range n {
				v.Owners = append(v.Owners, owner)
			}
		}
		for left := uint64(len(v.Owners)); left > 0 && !r.bad; {
			n, since := r.uvarint(), r.uvarint()
			if n == 0 || n > left {
				r.bad = true
				return nil
			}
			left -= n
			for range n {
				v.Since = append(v.Since, since)
			}
		}
	}
	return v.signed()
}
