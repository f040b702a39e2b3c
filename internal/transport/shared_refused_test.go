//go:build linux

package transport_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/segment"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"

	"golang.org/x/sys/unix"
)

// mapped is how much shared memory this process has mapped, in mappings.
func mapped(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("memfd:coppice"))
}

// TestFilesThatAreOfNoUse: a peer offers to share memory, and its files do not arrive, or are not what they should be. They are closed;
// the bytes go through the socket, if the peer has not gone.
func TestFilesThatAreOfNoUse(t *testing.T) {
	in := inbox(t)
	leavesNothing(t)
	before := mapped(t)
	at := start(t, 1, func(c *transport.Config) { c.Inbox, c.Ring = in, segment.RingMin }, place(t, transport.Unix))
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	rings, memory, err := segment.NewPair(segment.RingMin)
	if err != nil {
		t.Fatal(err)
	}
	defer rings.Close()
	defer segment.ClosePair(memory)
	for _, c := range []struct {
		name  string
		files []*os.File
		leave bool
	}{
		{"none arrives", nil, false},
		{"one arrives", []*os.File{rings}, false},
		{"three arrive", []*os.File{rings, in.File(), null}, false},
		{"rings that are none", []*os.File{null, in.File()}, false},
		{"an inbox that is none", []*os.File{rings, null}, false},
		{"the peer leaves", []*os.File{rings, in.File()}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("unix", at.Addresses()[0].Path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			k := wire.Knock(jobKey, job)
			if _, err := conn.Write(k[:]); err != nil {
				t.Fatal(err)
			}
			if _, err := wire.Connect(conn, jobKey, nil, wire.Identity{Job: job, From: 2, To: 1, Incarnation: 1}); err != nil {
				t.Fatal(err)
			}
			var rights []byte
			if len(c.files) > 0 {
				var fds []int
				for _, f := range c.files {
					fds = append(fds, int(f.Fd()))
				}
				rights = unix.UnixRights(fds...)
			}
			if _, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte("s"), rights, nil); err != nil {
				t.Fatal(err)
			}
			if c.leave {
				return
			}
			var said [1]byte
			if _, err := conn.Read(said[:]); err != nil || said[0] != 'n' {
				t.Fatalf("%q, %v, want \"n\"", said, err)
			}
			_ = at.accepted(t).Close()
		})
	}
	_ = at.Close()
	for len(at.got) > 0 {
		_ = (<-at.got).Close()
	}
	if now := mapped(t); now != before+1 {
		t.Errorf("%d mappings more than before, want that of the test's own rings", now-before)
	}
}

// TestAnswersThatAreOfNoUse: the peer to which memory is offered leaves, or answers what it must not. Nothing stays open or mapped.
func TestAnswersThatAreOfNoUse(t *testing.T) {
	in := inbox(t)
	leavesNothing(t)
	before := mapped(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		name, says string
		file       *os.File
		takes      bool
	}{
		{"it leaves", "", nil, false},
		{"it leaves with the files", "", nil, true},
		{"no file", "s", nil, true},
		{"no inbox", "s", null, true},
		{"a file that it does not share", "n", in.File(), true},
		{"something else", "x", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := start(t, 2, func(c *transport.Config) { c.Inbox, c.Ring = in, segment.RingMin })
			p := place(t, transport.Unix)
			l, err := net.Listen("unix", p.Path)
			if err != nil {
				t.Fatal(err)
			}
			var peer sync.WaitGroup
			defer peer.Wait()
			defer l.Close()
			peer.Go(func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				var k [wire.KnockLen]byte
				_, _ = io.ReadFull(conn, k[:])
				_, _ = wire.Accept(conn, jobKey, nil, func(wire.Identity) (wire.Identity, wire.Refusal) {
					return wire.Identity{Job: job, From: 1, To: 2}, wire.Accepted
				})
				if c.takes {
					_, _ = conn.Read(make([]byte, 1))
				}
				var rights []byte
				if c.file != nil {
					rights = unix.UnixRights(int(c.file.Fd()))
				}
				if c.says != "" {
					_, _, _ = conn.(*net.UnixConn).WriteMsgUnix([]byte(c.says), rights, nil)
				}
			})
			if conn, err := from.Dial(t.Context(), transport.Address{Kind: transport.Unix, Path: p.Path}, wire.Identity{To: 1}, 0); err == nil {
				_ = conn.Close()
				t.Fatal("they are connected")
			}
		})
	}
	if now := mapped(t); now != before {
		t.Errorf("%d mappings more than before", now-before)
	}
}
