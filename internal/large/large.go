// Package large allocates and copies large pieces of memory without halting the process meanwhile.
//
// A single copy of gigabytes takes seconds, since the first touch of each page is a fault, and the Go
// runtime cannot preempt it. A goroutine that wants to stop all others, for example to begin a garbage
// collection, waits for the end of the copy, and so do all others. Therefore large values are copied in
// pieces, between which a goroutine can be preempted. Memory that will be overwritten is not cleared
// first, and is in huge pages where the system has them: then faults are 512 times as rare, and the
// only cost left is that the system clears the memory.
package large

import (
	"strings"
	"unsafe"
)

const (
	// Piece is how many bytes are copied at once. More than 256 KiB at once go past the caches on amd64: a copy of 1 MiB then
	// takes 2.4 times as long, one of 64 MiB 1.6 times (BenchmarkCopy).
	Piece    = 128 << 10
	hugePage = 2 << 20
)

// New returns memory for n bytes, in huge pages if n is large enough. The bytes are not zero.
func New(n int) []byte {
	if n < hugePage/2 {
		return make([]byte, n)
	}
	b := uncleared(n)
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	end := start + uintptr(n)
	// Include the pages shared with the neighbours: those are most likely large as well.
	adviseHuge(start&^(hugePage-1), (end+hugePage-1)&^(hugePage-1))
	return b
}

// uncleared returns memory for n bytes that were not set to zero. A strings.Builder is the only way to
// get such memory. The caller writes to it, which is safe since nobody else has the string.
func uncleared(n int) []byte {
	var b strings.Builder
	b.Grow(n)
	if b.WriteByte(0); b.Cap() < n { // Builder promises that it never is
		return make([]byte, n)
	}
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}

// Copy copies as copy does, in pieces. The two must not overlap.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	for at := 0; at < n; at += Piece {
		copyPiece(dst[at:n], src[at:min(at+Piece, n)])
	}
	return n
}

// copyPiece copies. A goroutine can be preempted where a function begins, unless that is inlined.
//
//go:noinline
func copyPiece(dst, src []byte) { copy(dst, src) }

// Append adds b to dst as append does. If that needs more memory and b is large, the new memory is
// exactly as large as needed.
func Append(dst, b []byte) []byte {
	if len(b) <= Piece {
		return append(dst, b...)
	}
	n := len(dst)
	dst = Grow(dst, len(b))[:n+len(b)]
	Copy(dst[n:], b)
	return dst
}

// Grow returns dst with room for n more bytes, in new memory if there was none.
func Grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	grown := New(len(dst) + n)
	return grown[:Copy(grown, dst)]
}

// totalUnknown is the assumed memory of a machine that does not report its own.
const totalUnknown = 16 << 30
