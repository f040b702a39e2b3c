package segment

import (
	"errors"
	"io"
	"sync/atomic"
	"unsafe"
)

// ErrDamaged is returned when the other process has written a position that cannot be right.
var ErrDamaged = errors.New("shared memory: the peer has written a position that cannot be right")

// ends are the positions of a ring: how many bytes have ever been written and read. The first line is the writer's, the
// second the reader's.
type ends struct {
	written  atomic.Uint64
	referred atomic.Uint64 // how many references have been written
	closed   atomic.Uint32 // the writer's memory is no longer what the references say
	_        [44]byte
	read     atomic.Uint64
	pulled   atomic.Uint64 // how many references have been read
	pulls    atomic.Uint32 // the reader can read the writer's memory
	_        [44]byte
	full     atomic.Uint32 // the writer waits for room
	_        [60]byte
	refs     [refsMax]reference
}

const endsLen = int(unsafe.Sizeof(ends{}))

// reference says where in the writer's memory the bytes are that follow a position of the ring.
type reference struct{ at, address, length uint64 }

// refsMax is how many references can be under way.
const refsMax = 32

// piece is how many bytes are published at once: the reader copies the first while the writer copies the second.
const piece = 32 << 10

// Writer is the end of a ring to which a process writes.
type Writer struct {
	at      *ends
	ring    []byte // its length is a power of two
	written uint64 // the writer's own count, which nobody else can spoil
	read    uint64 // of which that many have been read, when it last looked
	refs    uint64 // the writer's own count of references
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

// ReferMin is how many bytes are worth a reference: to read them in the writer's memory takes a system call or two.
const ReferMin = 16 << 10

// Refer writes where b is instead of its bytes, if the reader can read them there and there is room for a reference; otherwise
// it returns false. The bytes must not change before the reader has them, or Close was called.
func (w *Writer) Refer(b []byte) bool {
	if len(b) < ReferMin || w.at.pulls.Load() == 0 || w.refs-w.at.pulled.Load() >= refsMax || !readable() {
		return false
	}
	escape(b)
	w.at.refs[w.refs%refsMax] = reference{at: w.written, address: uint64(uintptr(unsafe.Pointer(&b[0]))), length: uint64(len(b))}
	w.refs++
	w.at.referred.Store(w.refs)
	return true
}

// escape does nothing, which the compiler cannot know of a variable. So it keeps memory that is referred to on the heap, which stays
// where it is.
var escape = func([]byte) {}

// Close says that references are no longer valid: memory that they are to may be used again.
func (w *Writer) Close() { w.at.closed.Store(1) }

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
	pull    Pull
	ref     reference // the one that is being read; length 0: none
	pulled  uint64
	failed  bool // the bytes of ref cannot be read
}

// Pull reads the bytes at an address of the writer's memory.
type Pull func(b []byte, address uint64) error

// Pull says how the reader reads the writer's memory, so that the writer may refer to it.
func (r *Reader) Pull(pull Pull) {
	r.pull = pull
	r.at.pulls.Store(1)
}

// Read reads what is there; 0: nothing. If awaited, the writer waits for room, and there is some now.
func (r *Reader) Read(b []byte) (n int, awaited bool, err error) {
	for n < len(b) {
		until, err := r.look()
		if err != nil {
			return n, false, err
		}
		if r.read == until && r.ref.length == 0 {
			break
		}
		if r.read == until {
			c, err := r.follow(b[n:])
			if r.failed = err != nil; r.failed && n == 0 {
				return 0, false, err
			}
			if n += c; r.failed { // the next call says so: what precedes the reference is good
				break
			}
			continue
		}
		at := int(r.read & uint64(len(r.ring)-1))
		c := copy(b[n:], r.ring[at:min(len(r.ring), at+int(until-r.read))])
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

// Failed reports whether the next Read returns an error.
func (r *Reader) Failed() bool { return r.failed }

// look returns up to which position there are bytes in the ring before the next reference.
func (r *Reader) look() (until uint64, err error) {
	if r.ref.length > 0 {
		return r.ref.at, nil
	}
	if r.read == r.written {
		err = r.lookWritten()
	}
	// References are looked at after the bytes: one that precedes bytes was published before them.
	if err != nil || r.pull == nil || r.at.referred.Load() == r.pulled {
		return r.written, err
	}
	ref := r.at.refs[r.pulled%refsMax]
	if ref.at != r.written {
		err = r.lookWritten()
	}
	if err != nil || ref.at-r.read > r.written-r.read || ref.length == 0 {
		return r.read, ErrDamaged
	}
	r.ref = ref
	return ref.at, nil
}

// lookWritten looks how many bytes have been written.
func (r *Reader) lookWritten() error {
	written := r.at.written.Load()
	if written-r.read > uint64(len(r.ring)) {
		return ErrDamaged
	}
	r.written = written
	return nil
}

// follow reads bytes to which the writer has referred. If the writer has closed the ring by then, they may be others.
func (r *Reader) follow(b []byte) (int, error) {
	b = b[:min(uint64(len(b)), r.ref.length)]
	if err := r.pull(b, r.ref.address); err != nil {
		return 0, err
	}
	if r.at.closed.Load() != 0 {
		return 0, io.ErrUnexpectedEOF
	}
	r.ref.address += uint64(len(b))
	if r.ref.length -= uint64(len(b)); r.ref.length == 0 {
		r.pulled++
		r.at.pulled.Store(r.pulled)
	}
	return len(b), nil
}

// Empty reports whether there is nothing to read.
func (r *Reader) Empty() bool {
	return r.read == r.written && r.at.written.Load() == r.read && r.ref.length == 0 && r.at.referred.Load() == r.pulled
}

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
