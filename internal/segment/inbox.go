package segment

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"unsafe"
)

// Inbox is where the peers of a process mark that there is something for it: one bit for each of them.
type Inbox struct {
	file   *os.File
	memory []byte
	head   *inboxHead
	marks  []atomic.Uint64
}

// inboxHead says whether the process sleeps, and has a cache line of its own. In the other line is the address that it has
// in the memory of its process, and a random number by which others know that it is that memory that they read.
type inboxHead struct {
	asleep  atomic.Uint32
	_       [60]byte
	address uint64
	nonce   uint64
	_       [48]byte
}

const inboxHeadLen = int(unsafe.Sizeof(inboxHead{}))

// inboxLen is the length of the inbox of a process with so many peers: whole pages.
func inboxLen(peers int) int { return (inboxHeadLen + (peers+63)/64*8 + 4095) &^ 4095 }

// NewInbox makes the inbox of a process with at most so many peers.
func NewInbox(peers int) (*Inbox, error) {
	f, memory, err := create("coppice-inbox", inboxLen(peers))
	if err != nil {
		return nil, err
	}
	in := inboxOf(memory)
	in.file, in.marks = f, in.marks[:(peers+63)/64]
	in.head.address, in.head.nonce = uint64(uintptr(unsafe.Pointer(in.head))), rand.Uint64()
	return in, nil
}

func inboxOf(memory []byte) *Inbox {
	marks := memory[inboxHeadLen:]
	return &Inbox{
		memory: memory,
		head:   (*inboxHead)(unsafe.Pointer(&memory[0])),
		marks:  unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&marks[0])), len(marks)/8),
	}
}

// OpenInbox maps the inbox of another process.
func OpenInbox(f *os.File) (*Inbox, error) {
	memory, err := open(f)
	if err != nil {
		return nil, err
	}
	if len(memory) < inboxLen(1) || len(memory) > inboxLen(1<<20) {
		return nil, errors.Join(errors.New("shared memory: no inbox has this length"), unmap(memory))
	}
	return inboxOf(memory), nil
}

// Pulls reports whether this process can read the memory of the inbox's owner: the kernel may forbid it.
func (in *Inbox) Pulls(pid int) bool {
	var head [inboxHeadLen]byte
	if err := PullFrom(pid, head[:], in.head.address); err != nil {
		return false
	}
	return in.head.nonce != 0 && (*inboxHead)(unsafe.Pointer(&head)).nonce == in.head.nonce
}

// File is what another process opens the inbox with.
func (in *Inbox) File() *os.File { return in.file }

// Close gives the memory back.
func (in *Inbox) Close() error {
	err := unmap(in.memory)
	if in.file != nil {
		err = errors.Join(err, in.file.Close())
	}
	in.memory, in.head, in.marks = nil, nil, nil
	return err
}

// Mark marks that there is something from a peer, and reports whether the owner of the inbox sleeps and has to be
// woken. It is false if the inbox has no room for the peer.
func (in *Inbox) Mark(peer int) (asleep bool) {
	if peer>>6 >= len(in.marks) {
		return false
	}
	in.marks[peer>>6].Or(1 << (peer & 63))
	return in.head.asleep.Load() != 0
}

// Marked reports whether any peer has marked something.
func (in *Inbox) Marked() bool {
	for i := range in.marks {
		if in.marks[i].Load() != 0 {
			return true
		}
	}
	return false
}

// Take removes all marks and calls f with the peers that made them.
func (in *Inbox) Take(f func(peer int)) {
	for i := range in.marks {
		if in.marks[i].Load() == 0 {
			continue
		}
		for word := in.marks[i].Swap(0); word != 0; word &= word - 1 {
			f(i<<6 + bits.TrailingZeros64(word))
		}
	}
}

// Sleep says that the owner sleeps. It has to look at the marks once more after it has said so: who marks before does not wake it.
func (in *Inbox) Sleep() { in.head.asleep.Store(1) }

// Wake says that the owner does not sleep.
func (in *Inbox) Wake() {
	if in.head.asleep.Load() != 0 {
		in.head.asleep.Store(0)
	}
}
