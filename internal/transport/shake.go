package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/wire"
)

// talk is one role's part of the handshake, on a channel to which binding belongs.
type talk func(rw io.ReadWriter, binding []byte) (me, peer wire.Identity, err error)

// shake makes the handshake on conn, which has been knocked on, and makes a Conn
// of it. through is conn, perhaps watched; first: this process has connected. On an error the Conn is not open, but
// tells the peer if that is known; conn is then the caller's to close.
func (e *Endpoint) shake(kind string, conn, through net.Conn, first bool, speak talk) (c *Conn, err error) {
	c = &Conn{fd: -1, pidfd: -1}
	defer func() {
		if err != nil {
			c.closePidfd()
		}
	}()
	pid := 0
	if kind == Unix {
		c.pidfd, pid = e.pidfd(conn)
	}
	var sec *secure
	var bound []byte // ties the handshake to the TLS connection it is made on
	carrier := conn
	if kind == TLS {
		below := &channel{blocking: through, fd: -1, in: make([]byte, bufferMin)}
		role := wire.Server
		if first {
			role = wire.Client
		}
		secured, err := role(below)
		if err != nil {
			return c, fmt.Errorf("certificate: %w", err)
		}
		sec = &secure{conn: secured, below: below}
		if bound, err = wire.Binding(sec.conn); err != nil { // conn has a deadline
			return c, fmt.Errorf("TLS: %w", err)
		}
		through, carrier = sec.conn, sec.conn
	}
	if c.self, c.peer, err = speak(through, bound); err != nil || c.visits(conn, carrier) {
		return c, err
	}
	if u, local := conn.(*net.UnixConn); local {
		if c.shared, err = e.share(u, int(c.self.From), pid, c.peer.From, first); err != nil {
			return c, err
		}
	}
	if err = c.takeOver(conn, sec, e.cfg.StallTime); err != nil && c.shared != nil {
		err = errors.Join(err, c.shared.close())
	}
	return c, err
}

// pidfd returns the pidfd and the pid of the peer's process, −1 and 0 if there is no pidfd to be had.
func (e *Endpoint) pidfd(conn net.Conn) (fd, pid int) {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, 0
	}
	fd, pid, err = detect.PeerPidfd(raw)
	if err != nil {
		e.cfg.Logger.Debug("no pidfd of the peer", "error", err)
		return -1, 0
	}
	return fd, pid
}

// ErrUnheard: the peer closed the connection without a word. It was too busy
// with strangers, or takes us for one: another job, another key.
var ErrUnheard = errors.New("turned away without a word")

// dialTries is how often Dial knocks before it gives up as ErrUnheard.
const dialTries = 8

// Dial connects and makes the handshake. me says To, View, Link and Received;
// the rest is filled in. A refusal is a wire.Refusal to errors.As. ctx bounds
// all of it; the handshake has a bound of its own, and so has, if reach is not 0, the time
// until the peer's kernel answers.
func (e *Endpoint) Dial(ctx context.Context, a Address, me wire.Identity, reach time.Duration) (*Conn, error) {
	if !e.begin() {
		return nil, net.ErrClosed
	}
	defer e.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	me = e.signed(me, me.To)
	for try, pause := 1, time.Millisecond; ; try, pause = try+1, 2*pause {
		c, err := e.dialOnce(ctx, a, me, reach)
		if err == nil {
			return c, nil
		}
		if try == dialTries || !passing(err) || !sleep(ctx, pause+rand.N(pause)) {
			return nil, fmt.Errorf("connect to process %d at %v: %w", me.To, a, e.reason(ctx, err))
		}
	}
}

// passing tells whether to knock again: nobody has decided anything yet.
func passing(err error) bool {
	return errors.Is(err, ErrUnheard) || errors.Is(err, syscall.EAGAIN) // the backlog of a Unix socket is full
}

// sleep sleeps; false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// reason is why a Dial really failed: a context that ends shows as a deadline.
func (e *Endpoint) reason(ctx context.Context, err error) error {
	var refusal wire.Refusal
	switch {
	case errors.As(err, &refusal):
		return err
	case e.ctx.Err() != nil:
		return net.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

func (e *Endpoint) dialOnce(ctx context.Context, a Address, me wire.Identity, reach time.Duration) (*Conn, error) {
	conn, err := connect(ctx, a, reach)
	if err != nil {
		return nil, unheard(err)
	}
	_ = conn.SetDeadline(time.Now().Add(e.cfg.HandshakeTime))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	through := &watched{Conn: conn}
	c, err := e.call(a.Kind, conn, through, me)
	if err != nil {
		_ = conn.Close()
		if !through.heard {
			err = unheard(err)
		}
		return nil, err
	}
	return c, nil
}

// call knocks and makes the handshake with who answers.
func (e *Endpoint) call(kind string, conn net.Conn, through net.Conn, me wire.Identity) (*Conn, error) {
	k := wire.Knock(e.cfg.Key, me.Job)
	if _, err := conn.Write(k[:]); err != nil {
		return nil, err
	}
	return e.shake(kind, conn, through, true, func(rw io.ReadWriter, binding []byte) (wire.Identity, wire.Identity, error) {
		peer, err := wire.Connect(rw, e.cfg.Key, binding, me)
		if err == nil && (peer.Job != me.Job || peer.From != me.To && me.To != wire.Coordinator) {
			err = fmt.Errorf("it is process %d of job %x", peer.From, peer.Job)
		}
		return me, peer, err
	})
}

// Visit connects with the coordinator, which is part of a process that listens at a. me says Link; the
// rest is filled in. It returns the connection and what that process said of itself.
func (e *Endpoint) Visit(ctx context.Context, a Address, me wire.Identity) (net.Conn, wire.Identity, error) {
	me.To = wire.Coordinator
	c, err := e.Dial(ctx, a, me, 0)
	if err != nil {
		return nil, wire.Identity{}, err
	}
	return c.stream, c.peer, nil
}

// visits makes a stream of the connection if it is one with the coordinator.
func (c *Conn) visits(conn net.Conn, through io.ReadWriter) bool {
	if c.self.To != wire.Coordinator && c.peer.To != wire.Coordinator {
		return false
	}
	_ = conn.SetDeadline(time.Time{})
	c.closePidfd()
	c.stream = &stream{conn, through}
	return true
}

// stream is a connection that blocks. Deadlines are those of the connection below, and so is its end.
type stream struct {
	net.Conn
	through io.ReadWriter
}

func (s *stream) Read(b []byte) (int, error)  { return s.through.Read(b) }
func (s *stream) Write(b []byte) (int, error) { return s.through.Write(b) }

// CloseWrite tells the peer that nothing more comes.
func (s *stream) CloseWrite() error { return s.through.(interface{ CloseWrite() error }).CloseWrite() }

func connect(ctx context.Context, a Address, reach time.Duration) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1, Timeout: reach}
	d.SetMultipathTCP(false)
	switch a.Kind {
	case Unix:
		return d.DialContext(ctx, "unix", a.Path)
	case TCP, TLS:
		return d.DialContext(ctx, "tcp", a.Host.String())
	}
	return nil, fmt.Errorf("kind of address %q; allowed: %s, %s, %s", a.Kind, Unix, TCP, TLS)
}

// watched remembers whether anything was read.
type watched struct {
	net.Conn
	heard bool
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.heard = w.heard || n > 0
	return n, err
}

// unheard adds ErrUnheard to the error of a connection that the peer closed.
func unheard(err error) error {
	closed := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}
	if slices.ContainsFunc(closed, func(e error) bool { return errors.Is(err, e) }) {
		return fmt.Errorf("%w: %w", ErrUnheard, err)
	}
	return err
}
