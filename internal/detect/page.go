package detect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/coppice-go/coppice/internal/posix"
)

// Page is memory that the processes of a host share, a slot for each rank: a process
// counts its beats there, and whoever wants to know whether it is alive looks. A beat
// costs no system call and nobody is woken by it; the memory stays though its file is
// removed.
type Page struct {
	memory []byte
	slots  int
}

// slotLen is the length of a slot in bytes: that of a cache line, so that one who writes does
// not disturb another.
const slotLen = 64

// slot is what a process has written.
type slot struct {
	beats       atomic.Uint64
	pid         atomic.Uint64
	incarnation atomic.Uint64
}

const pageName = "beats"

// SilenceMin is the shortest silence: it keeps the parts of a silence well above what a timer is late by.
const SilenceMin = 50 * time.Millisecond

// OpenPage opens the page of a directory, for ranks up to below slots, and makes it if it
// is missing.
func OpenPage(dir string, slots int) (*Page, error) {
	f, err := os.OpenFile(filepath.Join(dir, pageName), os.O_RDWR|os.O_CREATE|posix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("page of beats: %w", err)
	}
	defer f.Close()
	size := int64(slots) * slotLen
	if info, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("page of beats: %w", err)
	} else if info.Size() < size {
		// Zeros are written, not left out: without room for them the first beat would be a SIGBUS.
		if _, err := f.WriteAt(make([]byte, size-info.Size()), info.Size()); err != nil {
			return nil, fmt.Errorf("page of beats: %w", err)
		}
	}
	memory, err := posix.MapShared(f, int(size))
	if err != nil {
		return nil, fmt.Errorf("page of beats: %w", err)
	}
	return &Page{memory, slots}, nil
}

// Close gives the memory back. Nobody may use the page any more.
func (p *Page) Close() error {
	if p.memory == nil {
		return errors.New("page of beats: closed twice")
	}
	err := posix.Unmap(p.memory)
	p.memory = nil
	return err
}

func (p *Page) slot(rank int) *slot {
	if rank < 0 || rank >= p.slots {
		return nil
	}
	return (*slot)(unsafe.Pointer(&p.memory[rank*slotLen]))
}

// Beat counts a beat of this process.
func (p *Page) Beat(rank int, incarnation uint64) {
	if s := p.slot(rank); s != nil {
		s.pid.Store(uint64(os.Getpid()))
		s.incarnation.Store(incarnation)
		s.beats.Add(1)
	}
}

// Beats returns how often an incarnation of a rank has beaten, and its process; 0: it has not.
func (p *Page) Beats(rank int, incarnation uint64) (beats uint64, pid int) {
	s := p.slot(rank)
	if s == nil || s.incarnation.Load() != incarnation {
		return 0, 0
	}
	return s.beats.Load(), int(s.pid.Load())
}
