package node

import "github.com/coppice-go/coppice/internal/large"

// Memory of the log. What is logged stays, so it always goes to memory that was never
// used before, and the first touch of each of its pages is a fault: ten times as long
// as to copy a page into memory in use. So it is cut from large pieces (package large).
// A piece is the garbage
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
	logAlign   = 64      // of what is cut
	logCutMax  = 1 << 19 // what is larger is a piece of its own
)

// take returns memory for n bytes.
func (l *logMemory) take(n int) []byte {
	if n > logCutMax {
		return large.New(n)
	}
	if len(l.rest) < n {
		size := pieceSize
		if !l.used && n <= pieceFirst {
			size = pieceFirst
		}
		l.rest, l.used = large.New(size), true
	}
	end := min((n+logAlign-1)&^(logAlign-1), len(l.rest))
	b := l.rest[:n:n]
	l.rest = l.rest[end:]
	return b
}
