//go:build unix && !linux

package engine

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for sockets, with poll(2), and can be woken through a pipe.
type poller struct {
	mu    sync.Mutex
	fds   map[int]watched
	wakes [2]int // a pipe: read, write
}

type watched struct {
	data   int32
	output bool
}

func newPoller() (*poller, error) {
	p := &poller{fds: map[int]watched{}}
	if err := unix.Pipe(p.wakes[:]); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	for _, fd := range p.wakes {
		unix.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, true)
	}
	return p, p.add(p.wakes[0], -1)
}

// add watches a descriptor for input, and tells data when there is some.
func (p *poller) add(fd int, data int32) error {
	p.mu.Lock()
	p.fds[fd] = watched{data: data}
	p.mu.Unlock()
	p.wake() // a wait that has begun does not know it
	return nil
}

// output changes whether the descriptor is watched for room for output, too.
func (p *poller) output(fd int, data int32, on bool) error {
	p.mu.Lock()
	p.fds[fd] = watched{data, on}
	p.mu.Unlock()
	p.wake()
	return nil
}

func (p *poller) remove(fd int) {
	p.mu.Lock()
	delete(p.fds, fd)
	p.mu.Unlock()
}

// events is room for what wait returns.
type events []Ready

// wait blocks until something is ready, at most for d (for ever if negative),
// and returns what is.
func (p *poller) wait(room *events, d time.Duration) []Ready {
	p.mu.Lock()
	list := make([]unix.PollFd, 0, len(p.fds))
	data := make([]int32, 0, len(p.fds))
	for fd, w := range p.fds {
		f := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		if w.output {
			f.Events |= unix.POLLOUT
		}
		list, data = append(list, f), append(data, w.data)
	}
	p.mu.Unlock()
	ms := -1
	if d >= 0 {
		ms = int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	n, err := unix.Poll(list, ms)
	if err != nil || n == 0 {
		return nil
	}
	*room = (*room)[:0]
	for i, f := range list {
		if f.Revents != 0 {
			*room = append(*room, Ready{int(f.Fd), data[i], f.Revents&^unix.POLLOUT != 0, f.Revents&unix.POLLOUT != 0})
		}
	}
	return *room
}

// rest is wait for one that expects to wait for long.
func (p *poller) rest(d time.Duration) []Ready { return p.wait(new(events), d) }

// arm is of use only where rest is another thing than wait.
func (p *poller) arm(bool) bool { return true }

// wake makes a wait, present or next, return.
func (p *poller) wake() { _, _ = syscall.Write(p.wakes[1], []byte{1}) }

// woken takes note that a wake was seen.
func (p *poller) woken() {
	var b [64]byte
	_, _ = syscall.Read(p.wakes[0], b[:])
}

func (p *poller) close() {
	syscall.Close(p.wakes[0])
	syscall.Close(p.wakes[1])
}
