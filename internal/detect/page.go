package detect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/coppice-go/coppice/internal/posix"
)

// Page is memory that the processes of a host share, a slot for each rank: a process
// counts its beats there, and whoever wants to know whether it is alive looks. A beat
// costs no system call and nobody is woken by it; the memory stays though its file is
// removed. If the file is truncated, whoever next uses the page fills it again; if that
// fails, everybody counts as heard.
type Page struct {
	file   *os.File
	memory []byte
	slots  int
	blind  atomic.Uint64 // how often a slot could not be read
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
	p := &Page{file: f, slots: slots}
	if err = p.fill(); err == nil {
		p.memory, err = posix.MapShared(f, slots*slotLen)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("page of beats: %w", err)
	}
	return p, nil
}

// fill makes the file as long as the page. Zeros are written, not left out: without room for them
// the first beat would be a SIGBUS.
func (p *Page) fill() error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	if missing := int64(p.slots)*slotLen - info.Size(); missing > 0 {
		_, err = p.file.WriteAt(make([]byte, missing), info.Size())
	}
	return err
}

// Close gives the memory back. Nobody may use the page any more.
func (p *Page) Close() error {
	if p.memory == nil {
		return errors.New("page of beats: closed twice")
	}
	err := errors.Join(posix.Unmap(p.memory), p.file.Close())
	p.memory = nil
	return err
}

// use calls f with the slot of a rank, if there is one, and reports whether the memory was
// there. Where a file was truncated, it is not: the kernel sends SIGBUS, which would end
// the process. Then the file is filled, and f called again.
func (p *Page) use(rank int, f func(*slot)) bool {
	if rank < 0 || rank >= p.slots {
		return true
	}
	s := (*slot)(unsafe.Pointer(&p.memory[rank*slotLen]))
	return touch(s, f) || p.fill() == nil && touch(s, f)
}

// touch calls f, and reports whether the memory was there.
func touch(s *slot, f func(*slot)) (there bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			if _, ok := fault.(interface{ Addr() uintptr }); !ok {
				panic(fault)
			}
		}
	}()
	f(s)
	return true
}

// Beat counts a beat of this process.
func (p *Page) Beat(rank int, incarnation uint64) {
	p.use(rank, func(s *slot) {
		s.pid.Store(uint64(os.Getpid()))
		s.incarnation.Store(incarnation)
		s.beats.Add(1)
	})
}

// Beats returns how often an incarnation of a rank has beaten, and its process; 0: it has not.
// If the page cannot be read, beats is another number each time, and the process 0.
func (p *Page) Beats(rank int, incarnation uint64) (beats uint64, pid int) {
	there := p.use(rank, func(s *slot) {
		if s.incarnation.Load() == incarnation {
			beats, pid = s.beats.Load(), int(s.pid.Load())
		}
	})
	if !there {
		return p.blind.Add(1), 0
	}
	return beats, pid
}
