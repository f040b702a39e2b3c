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

// Page is memory that the processes of a host share, with a slot for each rank. A process counts its
// beats in its slot, and the others read the count to see that it is alive. A beat costs no system call
// and wakes no process. The memory outlives the removal of its file. If the file is truncated, the next
// process that uses the page fills it again; if that fails, every process counts as heard.
type Page struct {
	file   *os.File
	memory []byte
	slots  int
	blind  atomic.Uint64 // how often a slot could not be read
}

// slotLen is the length of a slot in bytes: a cache line, so that writers do not disturb each other.
const slotLen = 64

// slot is what one process has written.
type slot struct {
	beats       atomic.Uint64
	pid         atomic.Uint64
	incarnation atomic.Uint64
}

const pageName = "beats"

// SilenceMin is the shortest silence: its fractions stay well above the lateness of a timer.
const SilenceMin = 50 * time.Millisecond

// OpenPage opens the page of a directory, for ranks below slots, and creates it if it is missing.
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

// fill makes the file as long as the page. It writes zeros instead of leaving a hole: on a full file
// system the first beat into a hole would raise SIGBUS.
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

// Close unmaps the memory. Nobody may use the page afterwards.
func (p *Page) Close() error {
	if p.memory == nil {
		return errors.New("page of beats: closed twice")
	}
	err := errors.Join(posix.Unmap(p.memory), p.file.Close())
	p.memory = nil
	return err
}

// use calls f with the slot of a rank, if the rank has one, and reports whether the memory was there.
// If the file was truncated, the memory is missing: the kernel sends SIGBUS, which would end the
// process. Then use fills the file and calls f again.
func (p *Page) use(rank int, f func(*slot)) bool {
	if rank < 0 || rank >= p.slots {
		return true
	}
	s := (*slot)(unsafe.Pointer(&p.memory[rank*slotLen]))
	return touch(s, f) || p.fill() == nil && touch(s, f)
}

// touch calls f and reports whether the memory was there.
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

// Beats returns how often an incarnation of a rank has beaten (0: never) and the process number. If the
// page cannot be read, beats is a different number each time, and the process number is 0.
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
