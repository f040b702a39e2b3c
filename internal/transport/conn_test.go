//go:build unix

package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

var (
	jobKey = []byte("0123456789abcdef0123456789abcdef")
	job    = [16]byte{4, 2}
	kinds  = []string{transport.Unix, transport.TCP, transport.TLS}
)

// leavesNothing fails the test if it leaves a goroutine or a descriptor behind.
// Call it first.
func leavesNothing(t *testing.T) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	before := descriptors(t)
	t.Cleanup(func() {
		goleak.VerifyNone(t, ignore)
		if after := descriptors(t); after != before {
			t.Errorf("%d descriptors are open, %d before", after, before)
		}
	})
}

// descriptors counts those that are open, after the network was used once: the
// poller of package net stays.
func descriptors(t *testing.T) int {
	t.Helper()
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		t.Fatal(err)
	}
	_ = unix.SetNonblock(p[0], true)
	_ = os.NewFile(uintptr(p[0]), "poller").Close()
	_ = unix.Close(p[1])
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// node is an endpoint for tests: it accepts everyone unless told otherwise.
type node struct {
	*transport.Endpoint
	got       chan *transport.Conn
	abandoned chan wire.Identity
}

// place is one of a kind where tests listen.
func place(t testing.TB, kind string) transport.Place {
	if kind == transport.Unix {
		dir, err := os.MkdirTemp("", "transport") // t.TempDir() is too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return transport.Place{Kind: kind, Path: filepath.Join(dir, "s")}
	}
	return transport.Place{Kind: kind, Net: netip.MustParsePrefix("127.0.0.0/8")}
}

func start(t testing.TB, rank uint32, change func(*transport.Config), at ...transport.Place) node {
	t.Helper()
	n := node{got: make(chan *transport.Conn, 1000), abandoned: make(chan wire.Identity, 1000)}
	cfg := transport.Config{
		Key:         jobKey,
		Self:        wire.Identity{Job: job, From: rank, Incarnation: 10 + uint64(rank)},
		Decide:      func(wire.Identity) (wire.Identity, wire.Refusal) { return wire.Identity{Link: 77}, wire.Accepted },
		Established: func(c *transport.Conn) { n.got <- c },
		Abandoned:   func(peer wire.Identity) { n.abandoned <- peer },
	}
	if change != nil {
		change(&cfg)
	}
	e, err := transport.Listen(cfg, at...)
	if err != nil {
		t.Fatal(err)
	}
	n.Endpoint = e
	t.Cleanup(func() {
		_ = e.Close()
		close(n.got)
		for c := range n.got {
			_ = c.Close()
		}
	})
	return n
}

// dial connects to process 1.
func (n node) dial(t testing.TB, a transport.Address) (*transport.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := n.Dial(ctx, a, wire.Identity{To: 1, Link: 5}, 0)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// accepted returns the next connection that was.
func (n node) accepted(t testing.TB) *transport.Conn {
	t.Helper()
	select {
	case c := <-n.got:
		t.Cleanup(func() { _ = c.Close() })
		return c
	case <-time.After(10 * time.Second):
		t.Fatal("nobody connected")
		return nil
	}
}

// pair returns both ends of a connection.
func pair(t testing.TB, kind string) (dialed, accepted *transport.Conn) {
	t.Helper()
	one := start(t, 1, nil, place(t, kind))
	dialed, err := start(t, 2, nil).dial(t, one.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	return dialed, one.accepted(t)
}

// wait waits until one of the descriptors is ready.
func wait(t *testing.T, fds []unix.PollFd) {
	t.Helper()
	for {
		n, err := unix.Poll(fds, 10_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			t.Fatalf("nothing happens: %d, %v", n, err)
		}
		return
	}
}

// readAll reads until n bytes are there.
func readAll(t *testing.T, c *transport.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	for at := 0; at < n; {
		m, err := c.Read(b[at:])
		at += m
		switch {
		case err == transport.ErrAgain:
			wait(t, []unix.PollFd{{Fd: int32(c.Fd()), Events: unix.POLLIN}})
		case err != nil:
			t.Fatalf("after %d of %d bytes: %v", at, n, err)
		}
	}
	return b
}

func TestBothEndsKnowEachOther(t *testing.T) {
	leavesNothing(t)
	for _, kind := range kinds {
		a, b := pair(t, kind)
		one := wire.Identity{Job: job, From: 1, To: 2, Incarnation: 11, Link: 77}
		two := wire.Identity{Job: job, From: 2, To: 1, Incarnation: 12, Link: 5}
		if a.Peer() != one || b.Peer() != two || a.Self() != two || b.Self() != one {
			t.Errorf("%s: %+v and %+v", kind, a.Peer(), b.Peer())
		}
		if secure := kind == transport.TLS; a.Secure() != secure || b.Secure() != secure {
			t.Errorf("%s: secure %v and %v", kind, a.Secure(), b.Secure())
		}
		for _, c := range []*transport.Conn{a, b} {
			if (c.Pidfd() >= 0) != (kind == transport.Unix) {
				t.Errorf("%s: pidfd %d", kind, c.Pidfd())
			}
			if c.Pidfd() >= 0 && detect.ExitedPidfd(c.Pidfd()) {
				t.Errorf("%s: dead", kind)
			}
			if fd := c.PidfdTake(); fd >= 0 {
				_ = unix.Close(fd)
			}
			if c.Pidfd() != -1 {
				t.Errorf("%s: pidfd %d is still there", kind, c.Pidfd())
			}
		}
	}
}

// traffic is what one end has to say and to hear.
type traffic struct {
	c      *transport.Conn
	rng    *rand.Rand
	out    []byte
	in     []byte
	heard  int
	buffer []byte
}

// step does as much as can be done at once, and says what to wait for.
func (s *traffic) step(t *testing.T) (events int16, done bool) {
	for more := true; more; {
		more = s.write(t)
		more = s.read(t) || more
	}
	if s.heard < len(s.in) {
		events |= unix.POLLIN
	}
	if len(s.out) > 0 || s.c.Unsent() {
		events |= unix.POLLOUT
	}
	return events, events == 0
}

func (s *traffic) write(t *testing.T) (more bool) {
	if err := s.c.Flush(); err != nil && err != transport.ErrAgain {
		t.Fatal(err)
	}
	var bufs [][]byte
	n := 0
	for range 1 + s.rng.IntN(100) {
		size := s.rng.IntN(1 << s.rng.IntN(17))
		size = min(size, len(s.out)-n)
		bufs = append(bufs, s.out[n:n+size])
		n += size
	}
	took, err := s.c.Write(bufs)
	if err != nil && err != transport.ErrAgain || took > n || err == transport.ErrAgain && took > 0 {
		t.Fatalf("%d of %d bytes: %v", took, n, err)
	}
	s.out = s.out[took:]
	return took > 0
}

func (s *traffic) read(t *testing.T) (more bool) {
	n, err := s.c.Read(s.buffer[:1+s.rng.IntN(len(s.buffer))])
	if err == transport.ErrAgain {
		if s.c.Buffered() {
			t.Fatal("says that something is buffered, and gives nothing")
		}
		return false
	}
	if err != nil || s.heard+n > len(s.in) || !bytes.Equal(s.buffer[:n], s.in[s.heard:s.heard+n]) {
		t.Fatalf("%d bytes after %d: not what was sent; %v", n, s.heard, err)
	}
	s.heard += n
	return true
}

func TestEveryKindCarriesEveryByteBothWays(t *testing.T) {
	leavesNothing(t)
	for _, kind := range kinds {
		for seed := range uint64(6) {
			rng := rand.New(rand.NewPCG(seed, 1))
			a, b := pair(t, kind)
			room := 1 + rng.IntN(1<<(4+rng.IntN(16)))
			most := min(4<<20, 3000*room) // or it takes too long
			there, back := random(rng, rng.IntN(most)), random(rng, rng.IntN(most))
			ends := [2]traffic{
				{c: a, rng: rng, out: there, in: back, buffer: make([]byte, room)},
				{c: b, rng: rng, out: back, in: there, buffer: make([]byte, room)},
			}
			for {
				e0, done0 := ends[0].step(t)
				e1, done1 := ends[1].step(t)
				if done0 && done1 {
					break
				}
				wait(t, []unix.PollFd{{Fd: int32(a.Fd()), Events: e0}, {Fd: int32(b.Fd()), Events: e1}})
			}
			_ = a.Close()
			if _, err := b.Read(make([]byte, 1)); err == transport.ErrAgain {
				wait(t, []unix.PollFd{{Fd: int32(b.Fd()), Events: unix.POLLIN}})
			}
			if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%s: at the end %d, %v", kind, n, err)
			}
		}
	}
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestFullSocketTakesNoMore: who does not read is not written to without end.
func TestFullSocketTakesNoMore(t *testing.T) {
	leavesNothing(t)
	for _, kind := range kinds {
		a, b := pair(t, kind)
		chunk := [][]byte{make([]byte, 100_000), make([]byte, 100_000)}
		total := 0
		for {
			n, err := a.Write(chunk)
			total += n
			if err == transport.ErrAgain && n == 0 {
				break
			}
			if err != nil || total > 1<<28 {
				t.Fatalf("%s: %d bytes are taken: %v", kind, total, err)
			}
		}
		if a.Unsent() != (kind == transport.TLS) {
			t.Errorf("%s: unsent %v", kind, a.Unsent())
		}
		readAll(t, b, total/2)
		if err := a.Flush(); err != nil && err != transport.ErrAgain {
			t.Errorf("%s: %v", kind, err)
		}
		_ = b.Close()
		var err error
		for range 100 {
			if _, err = a.Write(chunk); err != nil && err != transport.ErrAgain {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%s: writing to who has closed: %v", kind, err)
		}
	}
}

// TestHotPathAllocatesNothing: neither do reads that find nothing.
func TestHotPathAllocatesNothing(t *testing.T) {
	for _, kind := range []string{transport.Unix, transport.TCP} {
		a, b := pair(t, kind)
		message := [][]byte{make([]byte, 32), make([]byte, 8)}
		one := message[1:]
		buffer := make([]byte, 1000)
		round := func() {
			if n, err := a.Write(message); n != 40 || err != nil {
				t.Fatal(n, err)
			}
			if n, err := a.Write(one); n != 8 || err != nil {
				t.Fatal(n, err)
			}
			for got := 0; got < 48; {
				n, err := b.Read(buffer)
				if err != nil && err != transport.ErrAgain {
					t.Fatal(err)
				}
				got += n
			}
			if _, err := b.Read(buffer); err != transport.ErrAgain {
				t.Fatal(err)
			}
		}
		round()
		if n := testing.AllocsPerRun(1000, round); n != 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
	}
}

func TestClosedConn(t *testing.T) {
	leavesNothing(t)
	for _, kind := range kinds {
		a, _ := pair(t, kind)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err == nil {
			t.Error("closed twice")
		}
		if _, err := a.Read(make([]byte, 1)); err == nil || err == transport.ErrAgain {
			t.Errorf("%s: read: %v", kind, err)
		}
		if _, err := a.Write([][]byte{{1}}); err == nil || err == transport.ErrAgain {
			t.Errorf("%s: write: %v", kind, err)
		}
	}
}
