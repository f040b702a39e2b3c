package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// poller waits for sockets and process descriptors, and can be woken.
type poller struct {
	epoll int
	wakes int // an event descriptor

	// What Go's own poller knows: another epoll descriptor, which watches the first one while
	// somebody rests and only then. Otherwise every message would wake a thread of Go's, too.
	file  *os.File
	raw   syscall.RawConn
	armed bool
	room  events // of rest, whose caller is always the same
	got   []Ready
	look  func(uintptr) bool
}

func newPoller() (*poller, error) {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	r, _, e := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if e != 0 {
		syscall.Close(epoll)
		return nil, fmt.Errorf("eventfd: %w", e)
	}
	p := &poller{epoll: epoll, wakes: int(r)}
	err = p.add(p.wakes, -1)
	if err == nil {
		err = p.enlist()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// enlist makes the descriptor for rest, and makes it known to Go's own poller.
func (p *poller) enlist() error {
	outer, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	err = syscall.EpollCtl(outer, syscall.EPOLL_CTL_ADD, p.epoll, &syscall.EpollEvent{})
	if err == nil {
		err = syscall.SetNonblock(outer, true) // only such ones it takes
	}
	if err != nil {
		syscall.Close(outer)
		return fmt.Errorf("epoll: %w", err)
	}
	p.file = os.NewFile(uintptr(outer), "epoll")
	p.raw, err = p.file.SyscallConn()
	p.look = func(uintptr) bool {
		p.got = p.wait(&p.room, 0)
		return len(p.got) > 0
	}
	return err
}

// add watches a descriptor for input, and tells data when there is some.
func (p *poller) add(fd int, data int32) error {
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd), Pad: data}
	return syscall.EpollCtl(p.epoll, syscall.EPOLL_CTL_ADD, fd, &ev)
}

// output changes whether the descriptor is watched for room for output, too.
func (p *poller) output(fd int, data int32, on bool) error {
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd), Pad: data}
	if on {
		ev.Events |= syscall.EPOLLOUT
	}
	return syscall.EpollCtl(p.epoll, syscall.EPOLL_CTL_MOD, fd, &ev)
}

func (p *poller) remove(fd int) { _ = syscall.EpollCtl(p.epoll, syscall.EPOLL_CTL_DEL, fd, nil) }

// eventsMax is how many events are taken at once.
const eventsMax = 64

// events is room for what wait returns.
type events struct {
	raw   [eventsMax]syscall.EpollEvent
	ready [eventsMax]Ready
}

// wait blocks until something is ready, at most for d (for ever if negative),
// and returns what is.
func (p *poller) wait(room *events, d time.Duration) []Ready {
	var n int
	var err error
	if d == 0 {
		r, _, e := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&room.raw)), eventsMax, 0, 0, 0)
		if n = int(r); e != 0 {
			return nil
		}
	} else {
		ms := -1
		if d > 0 {
			ms = int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
		}
		n, err = syscall.EpollWait(p.epoll, room.raw[:], ms)
	}
	if err != nil {
		if !errors.Is(err, syscall.EINTR) {
			panic("epoll: " + err.Error()) // a descriptor of ours was closed behind our back
		}
		return nil
	}
	for i, ev := range room.raw[:n] {
		room.ready[i] = Ready{int(ev.Fd), ev.Pad, ev.Events&^syscall.EPOLLOUT != 0, ev.Events&syscall.EPOLLOUT != 0}
	}
	return room.ready[:n]
}

// rest is wait for one that expects to wait for long. It leaves the waiting to Go's
// own poller: a thread that blocks in a system call keeps its processor for up to
// 10 ms, in which Go's monitor looks at it some sixty times, and with more processes
// than processors that is most of what they do.
func (p *poller) rest(d time.Duration) []Ready {
	var until time.Time
	if d >= 0 {
		until = time.Now().Add(d)
	}
	if p.file.SetReadDeadline(until) != nil || !p.arm(true) {
		return p.wait(&p.room, d)
	}
	p.got = nil
	_ = p.raw.Read(p.look)
	return p.got
}

// arm changes whether Go's own poller hears of what is ready. Who rests again need not disarm it.
func (p *poller) arm(on bool) bool {
	if p.armed == on {
		return true
	}
	var ev syscall.EpollEvent
	if on {
		ev.Events = syscall.EPOLLIN
	}
	ok := false
	_ = p.raw.Control(func(outer uintptr) {
		ok = syscall.EpollCtl(int(outer), syscall.EPOLL_CTL_MOD, p.epoll, &ev) == nil
	})
	if ok {
		p.armed = on
	}
	return ok
}

// wake makes a wait, present or next, return.
func (p *poller) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.wakes), uintptr(unsafe.Pointer(&one[0])), 8)
}

// woken takes note that a wake was seen.
func (p *poller) woken() {
	var b [8]byte
	_, _, _ = syscall.RawSyscall(syscall.SYS_READ, uintptr(p.wakes), uintptr(unsafe.Pointer(&b[0])), 8)
}

func (p *poller) close() {
	if p.file != nil {
		p.file.Close()
	}
	syscall.Close(p.wakes)
	syscall.Close(p.epoll)
}
