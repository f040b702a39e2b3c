package segment

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

// ErrDamaged is returned when the other process has written a position that cannot be right.
var ErrDamaged = errors.New("shared memory: the peer has written a position that cannot be right")

// ends are the positions of a ring: how many bytes have ever been written and read. Each is written by one process, and
// has a cache line of its own.
type ends struct {
	written atomic.Uint64
	_       [56]byte
	read    atomic.Uint64
	_       [56]byte
	full    atomic.Uint32 // the writer waits for room
	_       [60]byte
}

const endsLen = int(unsafe.Sizeof(ends{}))

// piece is how many bytes are published at once: the reader copies the first while the writer copies the second.
const piece = 32 << 10

// Writer is the end of a ring to which a process writes.
type Writer struct {
	at      *ends
	ring    []byte // its length is a power of two
	written uint64 // the writer's own count, which nobody else can spoil
	read    uint64 // of which that many have been read, when it last looked
}

// Room returns how many bytes can be written now.
func (w *Writer) Room() (int, error) {
	read := w.at.read.Load()
	if w.written-read > uint64(len(w.ring)) {
		return 0, ErrDamaged
	}
	w.read = read
	return len(w.ring) - int(w.written-w.read), nil
}

// Write writes as much of b as there is room for, and calls published whenever the reader has something new to read.
func (w *Writer) Write(b []byte, published func()) (n int, err error) {
	for len(b) > 0 {
		room := len(w.ring) - int(w.written-w.read)
		if room < min(len(b), piece) {
			if room, err = w.Room(); room == 0 || err != nil {
				return n, err
			}
		}
		at := int(w.written & uint64(len(w.ring)-1))
		c := copy(w.ring[at:], b[:min(len(b), room, piece)])
		w.written += uint64(c)
		w.at.written.Store(w.written)
		published()
		n += c
		b = b[c:]
	}
	return n, nil
}

// Await says whether the writer waits for room. It has to look for room once more after it has said so.
func (w *Writer) Await(on bool) {
	var full uint32
	if on {
		full = 1
	}
	w.at.full.Store(full)
}

// Reader is the end of a ring from which a process reads.
type Reader struct {
	at      *ends
	ring    []byte
	read    uint64
	written uint64 // when it last looked
}

// Read reads what is there; 0: nothing. If awaited, the writer waits for room, and there is some now.
func (r *Reader) Read(b []byte) (n int, awaited bool, err error) {
	for n < len(b) {
		if r.read == r.written {
			written := r.at.written.Load()
			if written-r.read > uint64(len(r.ring)) {
				return n, false, ErrDamaged
			}
			if written == r.read {
				break
			}
			r.written = written
		}
		at := int(r.read & uint64(len(r.ring)-1))
		c := copy(b[n:], r.ring[at:min(len(r.ring), at+int(r.written-r.read))])
		r.read += uint64(c)
		r.at.read.Store(r.read)
		n += c
	}
	if n > 0 && r.at.full.Load() != 0 {
		r.at.full.Store(0)
		awaited = true
	}
	return n, awaited, nil
}

// Empty reports whether there is nothing to read.
func (r *Reader) Empty() bool { return r.read == r.written && r.at.written.Load() == r.read }

// Sizes of a ring.
const (
	RingMin = 16 << 10
	RingMax = 256 << 10
)

// PairLen returns the length of the memory of two rings of a size.
func PairLen(ring int) int { return pairHead + 2*ring }

// pairHead is the room before the two rings: the positions of both, in a page of their own.
const pairHead = 4096

// Pair returns the ends of a process: first is the process that made the memory.
func Pair(memory []byte, first bool) (in Reader, out Writer, err error) {
	size := (len(memory) - pairHead) / 2
	if size < RingMin || size > RingMax || size&(size-1) != 0 || PairLen(size) != len(memory) {
		return in, out, errors.New("shared memory: no pair of rings has this length")
	}
	ring := func(i int) (*ends, []byte) {
		from := pairHead + i*size
		return (*ends)(unsafe.Pointer(&memory[i*endsLen])), memory[from : from+size : from+size]
	}
	i := 0
	if !first {
		i = 1
	}
	out.at, out.ring = ring(i)
	in.at, in.ring = ring(1 - i)
	return in, out, nil
}
