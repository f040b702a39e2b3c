package runtime

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// poller waits for sockets and process descriptors, and can be woken.
type poller struct {
	epoll int
	wakes int // an event descriptor
}

// A ready descriptor: what the poller was told with it, and whether there is
// input or room for output.
type ready struct {
	fd            int
	data          int32
	input, output bool
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
	if err := p.add(p.wakes, -1); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
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
	ready [eventsMax]ready
}

// wait blocks until something is ready, at most for d (for ever if negative),
// and returns what is.
func (p *poller) wait(room *events, d time.Duration) []ready {
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
		room.ready[i] = ready{int(ev.Fd), ev.Pad, ev.Events&^syscall.EPOLLOUT != 0, ev.Events&syscall.EPOLLOUT != 0}
	}
	return room.ready[:n]
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
	syscall.Close(p.wakes)
	syscall.Close(p.epoll)
}
