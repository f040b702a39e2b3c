package transport

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/wire"
)

// Conn is a connection whose handshake is made: a byte stream that never
// blocks, driven by someone else's poll or epoll. One goroutine at a time.
//
// The caller's duties:
//
//  1. Ask Buffered before waiting for the descriptor to become readable, for
//     the first time too: what is in here already does not show there.
//  2. While Unsent, or after a short Write, wait for it to become writable as
//     well, then Flush, then Write the rest.
//  3. Close it, also after an error.
//  4. If it is Shared: read when the peer has marked the Inbox; call Rung before a read because the descriptor is
//     readable; call AwaitRoom instead of waiting for the descriptor to become writable; mark the Inbox if a read
//     has left something.
type Conn struct {
	fd         int
	pidfd      int
	self, peer wire.Identity
	vector     *vector // room for a Write of several pieces
	secure     *secure // nil: in clear
	shared     *shared // nil: the bytes go through the socket
	stream     *stream // instead of all this, between a process and the coordinator
}

// ErrAgain: nothing there to read, or no room to write. Wait for the descriptor.
var ErrAgain error = again{}

// again is what crypto/tls takes for a passing error, after which it goes on
// where it was: a net.Error that is temporary.
type again struct{}

var _ net.Error = again{}

func (again) Error() string   { return "not now" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// Fd is the descriptor to wait for. It stays the Conn's.
func (c *Conn) Fd() int { return c.fd }

// Peer is what the peer said of itself in the handshake, proven.
func (c *Conn) Peer() wire.Identity { return c.peer }

// Self is what it was told of us.
func (c *Conn) Self() wire.Identity { return c.self }

// PidfdTake is the pidfd of the peer's process, taken before it was challenged: readable
// once the process is dead. It is −1 if the peer is on another host, or the
// kernel has none. From now on the caller closes it; otherwise it is closed with the Conn.
func (c *Conn) PidfdTake() int {
	fd := c.pidfd
	c.pidfd = -1
	return fd
}

// Read reads what is there, in clear with one system call: at least a byte, or
// ErrAgain, or io.EOF when the peer has closed, or what is wrong.
func (c *Conn) Read(b []byte) (int, error) {
	switch {
	case c.secure != nil:
		return c.secure.read(b)
	case c.shared != nil:
		return c.shared.read(c.fd, b)
	}
	return receive(c.fd, b)
}

// Write writes as much of bufs as there is room for. A short count comes without
// error; it is ErrAgain if there is no room at all. If memory is shared, the caller keeps a piece of
// segment.ReferMin bytes or more as it is until the peer has it, or Close: the peer may read it there.
func (c *Conn) Write(bufs [][]byte) (int, error) {
	switch {
	case c.secure != nil:
		return c.secure.write(bufs)
	case c.shared != nil:
		return c.shared.write(c.fd, bufs)
	}
	if len(bufs) == 1 {
		return send(c.fd, bufs[0])
	}
	if c.vector == nil {
		c.vector = new(vector)
	}
	return c.vector.send(c.fd, bufs)
}

// Buffered tells whether Read may give something though the descriptor is not
// readable.
func (c *Conn) Buffered() bool {
	return c.secure != nil && c.secure.buffered() || c.shared != nil && c.shared.in.Failed()
}

// Unsent tells whether bytes that Write has taken are still here.
func (c *Conn) Unsent() bool { return c.secure != nil && c.secure.below.unsent() > 0 }

// Flush sends what is Unsent, as far as there is room: ErrAgain if some is left.
func (c *Conn) Flush() error {
	if c.secure == nil {
		return nil
	}
	return c.secure.below.flush()
}

// Close closes the connection and the pidfd. What is Unsent is lost.
func (c *Conn) Close() error {
	if c.fd < 0 {
		return net.ErrClosed
	}
	if c.secure != nil {
		c.secure.bye()
	}
	err := posix.Close(c.fd)
	if c.shared != nil {
		err = errors.Join(err, c.shared.close())
	}
	c.fd = -1
	c.closePidfd()
	return err
}

func (c *Conn) closePidfd() {
	if fd := c.PidfdTake(); fd >= 0 {
		_ = posix.Close(fd)
	}
}

// sendBuffer is how much a Unix socket takes before its peer reads, if the system
// allows it: with less, the writer of a large message waits again and again.
const sendBuffer = 512 << 10

// takeOver makes c the owner of the connection below conn, and closes conn.
func (c *Conn) takeOver(conn net.Conn, sec *secure, stall time.Duration) error {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var fd int
	var dupErr error
	if err := raw.Control(func(s uintptr) { fd, dupErr = posix.Duplicate(s) }); err != nil {
		return err
	}
	if dupErr != nil {
		return dupErr
	}
	c.fd, c.secure = fd, sec
	if sec != nil {
		sec.takeOver(fd)
	}
	if _, local := conn.(*net.UnixConn); local { // TCP finds its own size
		posix.SetSendBuffer(fd, sendBuffer)
	} else if stall > 0 {
		stallAfter(fd, stall)
	}
	_ = conn.Close()
	return nil
}
