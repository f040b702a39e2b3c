package runtime

import "unsafe"

// Memory of the log. What is logged stays, so it always goes to memory that was never
// used before, and the first touch of each of its pages is a fault: ten times as long
// as to copy a page into memory in use. So it is cut from large pieces for which the
// system is asked for huge pages, as it has them: then a fault is 512 times as rare
// and all that is left is that the system clears the memory. A piece is the garbage
// collector's as all memory is: it goes when the log is dropped and nobody sends any
// of it.

// logMemory is where the next that is logged goes.
type logMemory struct {
	rest []byte
	used bool // there was a piece before
}

// Sizes of its pieces, in bytes. A process that logs little takes little.
const (
	pieceFirst = 128 << 10
	pieceSize  = 4 << 20
	hugePage   = 2 << 20
	logAlign   = 64      // of what is cut
	logCutMax  = 1 << 19 // what is larger is a piece of its own
)

// take returns memory for n bytes.
func (l *logMemory) take(n int) []byte {
	if n > logCutMax {
		return newLarge(n)
	}
	if len(l.rest) < n {
		size := pieceSize
		if !l.used && n <= pieceFirst {
			size = pieceFirst
		}
		l.rest, l.used = newLarge(size), true
	}
	end := min((n+logAlign-1)&^(logAlign-1), len(l.rest))
	b := l.rest[:n:n]
	l.rest = l.rest[end:]
	return b
}

// newLarge returns new memory of n bytes, in huge pages if it is worth one.
func newLarge(n int) []byte {
	b := make([]byte, n)
	if n >= hugePage/2 {
		start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		end := start + uintptr(n)
		// The pages that it shares with its neighbours, too: those are most likely the
		// pieces before and after it.
		adviseHuge(start&^(hugePage-1), (end+hugePage-1)&^(hugePage-1))
	}
	return b
}
