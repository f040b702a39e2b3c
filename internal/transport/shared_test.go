//go:build linux

package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/segment"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"

	"golang.org/x/sys/unix"
)

// sharing is both ends of a connection between two endpoints, of which those with an inbox share memory.
func sharing(t testing.TB, one, two *segment.Inbox) (a, b *transport.Conn) {
	t.Helper()
	with := func(in *segment.Inbox) func(*transport.Config) {
		return func(c *transport.Config) { c.Inbox, c.Ring = in, segment.RingMin }
	}
	at := start(t, 1, with(one), place(t, transport.Unix))
	from := start(t, 2, with(two))
	b, err := from.Dial(context.Background(), at.Addresses()[0], wire.Identity{To: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	a = <-at.got
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

func inbox(t testing.TB) *segment.Inbox {
	t.Helper()
	in, err := segment.NewInbox(10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

// TestMemoryIsSharedIfBothAgree: otherwise the bytes go through the socket.
func TestMemoryIsSharedIfBothAgree(t *testing.T) {
	leavesNothing(t)
	one, two := inbox(t), inbox(t)
	for _, c := range []struct{ one, two *segment.Inbox }{{one, two}, {one, nil}, {nil, two}, {nil, nil}} {
		a, b := sharing(t, c.one, c.two)
		if want := c.one != nil && c.two != nil; a.Shared() != want || b.Shared() != want {
			t.Errorf("shared %v and %v, want %v", a.Shared(), b.Shared(), want)
		}
		for range 2 {
			if n, err := a.Write([][]byte{[]byte("hel"), []byte("lo")}); n != 5 || err != nil {
				t.Fatal(n, err)
			}
			var room [10]byte
			if n, err := b.Read(room[:]); string(room[:n]) != "hello" || err != nil {
				t.Fatalf("%q, %v", room[:n], err)
			}
			if _, err := b.Read(room[:]); err != transport.ErrAgain {
				t.Fatal(err)
			}
			a, b = b, a
		}
	}
}

// sleeper is an end that sleeps whenever there is nothing to do.
type sleeper struct {
	c  *transport.Conn
	in *segment.Inbox
}

// wait sleeps until something is marked, as a process does.
func (s *sleeper) wait() error {
	s.in.Sleep()
	defer s.in.Wake()
	if s.in.Marked() {
		s.in.Take(func(int) {})
		return nil
	}
	fds := []unix.PollFd{{Fd: int32(s.c.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 20_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return errors.Join(err, errors.New("a wake-up is lost"))
		}
		s.c.Rung()
		s.in.Take(func(int) {})
		return nil
	}
}

// TestNoWakeUpIsLost: two that sleep as soon as they have nothing to do exchange messages of all sizes, so that each waits for bytes
// and for room.
func TestNoWakeUpIsLost(t *testing.T) {
	one, two := inbox(t), inbox(t)
	a, b := sharing(t, one, two)
	const messages = 20_000
	done := make(chan error, 2)
	run := func(s *sleeper, seed uint64) error {
		mine, theirs := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(1-seed, 0))
		size := func(r *rand.Rand) int { return 8 + r.IntN(1<<r.IntN(17)) }
		var out, in []byte
		var kept [][]byte // by the writer, until the reader has it
		sent, got, next := 0, 0, size(theirs)
		room := make([]byte, 60_000)
		for sent < messages || got < messages || len(out) > 0 {
			progress := false
			if len(out) == 0 && sent < messages {
				out = make([]byte, size(mine))
				binary.LittleEndian.PutUint64(out, uint64(sent))
				kept = append(kept[max(0, len(kept)-100):], out)
				sent++
			}
			if len(out) > 0 {
				n, err := s.c.Write([][]byte{out})
				if err != nil && err != transport.ErrAgain {
					return err
				}
				out = out[n:]
				progress = n > 0
				if len(out) > 0 && s.c.AwaitRoom(true) {
					progress = true
				}
			}
			n, err := s.c.Read(room)
			if err != nil && err != transport.ErrAgain {
				return err
			}
			in = append(in, room[:n]...)
			progress = progress || n > 0
			for ; got < messages && len(in) >= next; got++ {
				if binary.LittleEndian.Uint64(in) != uint64(got) {
					return errors.New("not what was sent")
				}
				in, next = in[next:], size(theirs)
			}
			if !progress {
				if err := s.wait(); err != nil {
					return err
				}
			}
		}
		return nil
	}
	go func() { done <- run(&sleeper{c: a, in: one}, 0) }()
	go func() { done <- run(&sleeper{c: b, in: two}, 1) }()
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatWasWrittenBeforeTheEndIsRead: the end of a peer shows after all that it has written.
func TestWhatWasWrittenBeforeTheEndIsRead(t *testing.T) {
	leavesNothing(t)
	a, b := sharing(t, inbox(t), inbox(t))
	if n, err := a.Write([][]byte{make([]byte, 1000)}); n != 1000 || err != nil {
		t.Fatal(n, err)
	}
	_ = a.Close()
	b.Rung()
	total := 0
	for room := make([]byte, 300); ; {
		n, err := b.Read(room)
		total += n
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", total, err)
		}
	}
	if total != 1000 {
		t.Errorf("%d bytes before the end, want 1000", total)
	}
	if _, err := a.Read(make([]byte, 1)); err != net.ErrClosed {
		t.Errorf("a closed end: %v", err)
	}
	if _, err := a.Write([][]byte{{1}}); err != net.ErrClosed {
		t.Errorf("a closed end: %v", err)
	}
}

// TestLargePiecesAreReadInTheWritersMemory: whatever is written in whichever order, and as often as it is not read at once, it
// is read in that order; a reader that the kernel does not let read gets the same bytes through the ring.
func TestLargePiecesAreReadInTheWritersMemory(t *testing.T) {
	for _, refused := range []bool{false, true} {
		if refused {
			transport.RefusePulls(t)
		}
		a, b := sharing(t, inbox(t), inbox(t))
		rng := rand.New(rand.NewPCG(1, 2))
		var want, got []byte
		var kept [][]byte
		room := make([]byte, 300_000)
		large := 0
		for i := range 3000 {
			m := make([]byte, 1+rng.IntN(1<<rng.IntN(19)))
			for j := range m {
				m[j] = byte(i + j)
			}
			for left := m; len(left) > 0; {
				n, err := a.Write([][]byte{left[:len(left)/2], left[len(left)/2:]})
				if err != nil && err != transport.ErrAgain {
					t.Fatal(err)
				}
				if n == len(m) && n > segment.RingMin {
					large++
				}
				left = left[n:]
				if len(left) > 0 || rng.IntN(3) == 0 {
					if n, err = b.Read(room[:1+rng.IntN(len(room))]); err != nil && err != transport.ErrAgain {
						t.Fatal(err)
					}
					got = append(got, room[:n]...)
				}
			}
			want, kept = append(want, m...), append(kept, m)
		}
		for len(got) < len(want) {
			n, err := b.Read(room)
			if err != nil {
				t.Fatalf("after %d bytes of %d: %v", len(got), len(want), err)
			}
			got = append(got, room[:n]...)
		}
		if !bytes.Equal(got, want) {
			t.Error("other bytes than were written")
		}
		if (large > 0) == refused {
			t.Errorf("refused %v: %d messages that are larger than the ring were written at once", refused, large)
		}
		runtime.KeepAlive(kept)
	}
}

// TestClosedMemoryIsNotRead: what a writer has referred to may change once it has closed its end, so nobody believes it.
func TestClosedMemoryIsNotRead(t *testing.T) {
	a, b := sharing(t, inbox(t), inbox(t))
	message := make([]byte, 1<<20)
	if n, err := a.Write([][]byte{{1, 2, 3}, message}); n != 3+len(message) || err != nil {
		t.Fatal(n, err)
	}
	room := make([]byte, 1000)
	if n, err := b.Read(room); n != 1000 || err != nil {
		t.Fatal(n, err)
	}
	_ = a.Close()
	if n, err := b.Read(room); n > 0 || err == nil || err == transport.ErrAgain {
		t.Errorf("%d bytes of a closed end, %v", n, err)
	}
}

// TestMemoryThatCannotBeReadBreaksTheConnection, and the next one does without reading the writer's memory.
func TestMemoryThatCannotBeReadBreaksTheConnection(t *testing.T) {
	one, two := inbox(t), inbox(t)
	at := start(t, 1, func(c *transport.Config) { c.Inbox, c.Ring = one, segment.RingMin }, place(t, transport.Unix))
	from := start(t, 2, func(c *transport.Config) { c.Inbox, c.Ring = two, segment.RingMin })
	connect := func() (a, b *transport.Conn) {
		b, err := from.dial(t, at.Addresses()[0])
		if err != nil {
			t.Fatal(err)
		}
		return at.accepted(t), b
	}
	a, b := connect()
	gone, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := a.Write([][]byte{{1, 2, 3}, gone}); n != 3+len(gone) || err != nil {
		t.Fatal(n, err)
	}
	if err := unix.Munmap(gone); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(make([]byte, 1000)); n != 3 || err != nil || !b.Buffered() {
		t.Errorf("before memory that is gone: %d bytes, %v, buffered %v: nothing else says that the connection is to be read again", n, err, b.Buffered())
	}
	if n, err := b.Read(make([]byte, 1000)); n > 0 || !errors.Is(err, unix.EFAULT) {
		t.Errorf("%d bytes of memory that is gone, %v", n, err)
	}
	a, b = connect()
	if n, err := a.Write([][]byte{make([]byte, 1<<20)}); n > segment.RingMin || err != nil {
		t.Errorf("%d bytes are referred to once more, %v", n, err)
	}
	if n, err := b.Write([][]byte{make([]byte, 1<<20)}); n < 1<<20 || err != nil {
		t.Errorf("%d bytes of the other side are referred to, %v", n, err)
	}
}

// TestMemoryOfAProcessThatHasChangedItsUserIsNotReferredTo: nobody could read it.
func TestMemoryOfAProcessThatHasChangedItsUserIsNotReferredTo(t *testing.T) {
	a, _ := sharing(t, inbox(t), inbox(t))
	dumpable := func(yes uintptr) {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, yes, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	dumpable(0) // as setuid does
	defer dumpable(1)
	if n, err := a.Write([][]byte{make([]byte, 1<<20)}); n > segment.RingMin || err != nil {
		t.Errorf("%d bytes are written, %v", n, err)
	}
}

// TestAPeerWhoseFilesNeverArriveIsNotOfferedMemoryAgain: its limit of open files will not allow it the next time either.
func TestAPeerWhoseFilesNeverArriveIsNotOfferedMemoryAgain(t *testing.T) {
	from := start(t, 2, func(c *transport.Config) { c.Inbox, c.Ring = inbox(t), segment.RingMin })
	l, err := net.Listen("unix", place(t, transport.Unix).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, want := range []string{"s", "n"} {
		said := make(chan string, 1)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			var k [wire.KnockLen]byte
			_, _ = io.ReadFull(conn, k[:])
			_, _ = wire.Accept(conn, jobKey, nil, func(wire.Identity) (wire.Identity, wire.Refusal) {
				return wire.Identity{Job: job, From: 1, To: 2}, wire.Accepted
			})
			n, _ := conn.Read(k[:1])
			said <- string(k[:n])
			_, _ = conn.Write([]byte("s")) // and no file
		}()
		c, err := from.dial(t, transport.Address{Kind: transport.Unix, Path: l.Addr().String()})
		if err == nil {
			_ = c.Close()
		}
		if got := <-said; got != want {
			t.Errorf("it says %q, %v; want %q", got, err, want)
		}
	}
}

func TestSharedMemoryAllocatesNothing(t *testing.T) {
	one, two := inbox(t), inbox(t)
	a, b := sharing(t, one, two)
	message := [][]byte{make([]byte, 32), make([]byte, 8)}
	room := make([]byte, 1000)
	if n := testing.AllocsPerRun(1000, func() {
		if n, err := a.Write(message); n != 40 || err != nil {
			t.Fatal(n, err)
		}
		one.Take(func(int) {})
		two.Take(func(int) {})
		if n, err := b.Read(room); n != 40 || err != nil {
			t.Fatal(n, err)
		}
		if _, err := b.Read(room); err != transport.ErrAgain {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTheRoomThatADeadPeerAwaitsMattersNot: it had written as much as there was room for, waited for more, asleep, and has died. All that
// it had written is read.
func TestTheRoomThatADeadPeerAwaitsMattersNot(t *testing.T) {
	transport.RefusePulls(t)
	leavesNothing(t)
	one, two := inbox(t), inbox(t)
	a, b := sharing(t, one, two)
	if n, err := a.Write([][]byte{make([]byte, 2*segment.RingMin)}); n != segment.RingMin || err != nil {
		t.Fatal(n, err)
	}
	if a.AwaitRoom(true) {
		t.Fatal("there is room")
	}
	one.Sleep()
	_ = a.Close()
	b.Rung()
	total := 0
	for room := make([]byte, 1000); ; {
		n, err := b.Read(room)
		total += n
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", total, err)
		}
	}
	if total != segment.RingMin {
		t.Errorf("%d bytes before the end, want %d", total, segment.RingMin)
	}
}
