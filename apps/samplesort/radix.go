package samplesort

import (
	"math/bits"
	"unsafe"
)

// sortable is what radix sorts: keys, or structs that begin with one.
type sortable interface{ uint64 | entry }

// entry stands for a record.
type entry struct {
	prefix uint64 // of its key
	at     uint64 // where it is
}

// digits returns the key. A method would cost a call for each element.
func digits[E sortable](e *E) uint64 { return *(*uint64)(unsafe.Pointer(e)) }

const (
	digitBits = 11 // at most: that many places to write to at once are still fast
	few       = 24 // elements that are sorted by insertion
)

// radix sorts a by its keys; equal keys stay in their order. It uses room, which must be at least as long,
// and leaves the result there if there is set.
//
// It goes from the highest digit down, which makes stretches that fit into the cache after one pass, and
// takes digits from the highest bit on in which the keys of a stretch differ, so that no pass is wasted.
func radix[E sortable](a, room []E, there bool) {
	room = room[:len(a)]
	differ := uint64(0)
	if len(a) > few {
		first := digits(&a[0])
		for i := range a {
			differ |= digits(&a[i]) ^ first
		}
	} else {
		insertion(a)
	}
	if differ == 0 {
		if there {
			copy(room, a)
		}
		return
	}
	width := min(digitBits, bits.Len(uint(len(a)))-3) // about six elements to a digit, among all that are left
	shift := max(bits.Len64(differ)-width, 0)
	mask := uint64(1)<<width - 1
	var counts [1 << digitBits]int
	ends := counts[:mask+1]
	for i := range a {
		ends[digits(&a[i])>>shift&mask]++
	}
	at := 0
	for d, n := range ends {
		ends[d] = at
		at += n
	}
	for i := range a {
		d := digits(&a[i]) >> shift & mask
		room[ends[d]] = a[i]
		ends[d]++
	}
	lo := 0
	for _, hi := range ends {
		switch {
		case shift > 0 && hi-lo > 1:
			radix(room[lo:hi], a[lo:hi], !there)
		case !there:
			copy(a[lo:hi], room[lo:hi])
		}
		lo = hi
	}
}

// insertion sorts a few elements.
func insertion[E sortable](a []E) {
	for i := 1; i < len(a); i++ {
		e := a[i]
		j := i
		for ; j > 0 && digits(&a[j-1]) > digits(&e); j-- {
			a[j] = a[j-1]
		}
		a[j] = e
	}
}
