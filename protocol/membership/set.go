package membership

import (
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// set is a set of ids, a bit each.
type set []uint64

func (a set) has(id protocol.Rank) bool {
	return int(id)/64 < len(a) && a[id/64]>>(id%64)&1 == 1
}

func (a set) add(id protocol.Rank) set {
	for int(id)/64 >= len(a) {
		a = append(a, 0)
	}
	a[id/64] |= 1 << (id % 64)
	return a
}

func (a set) remove(id protocol.Rank) {
	if int(id)/64 < len(a) {
		a[id/64] &^= 1 << (id % 64)
	}
}

// list appends the ids of the set to a list.
func (a set) list(ids []protocol.Rank) []protocol.Rank {
	for i, w := range a {
		for ; w != 0; w &= w - 1 {
			ids = append(ids, protocol.Rank(64*i+bits.TrailingZeros64(w)))
		}
	}
	return ids
}

// with adds some ids to the set, except for others.
func (a set) with(ids, except []protocol.Rank) set {
	before := a
	if len(except) > 0 {
		before = slices.Clone(a)
	}
	for _, id := range ids {
		a = a.add(id)
	}
	for _, id := range except {
		if !before.has(id) {
			a.remove(id)
		}
	}
	return a
}
