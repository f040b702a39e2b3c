//go:build unix

package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"

	"golang.org/x/sys/unix"
)

// plainly connects without a handshake.
func plainly(t *testing.T, a transport.Address) net.Conn {
	t.Helper()
	network, at := "tcp", a.Host.String()
	if a.Kind == transport.Unix {
		network, at = "unix", a.Path
	}
	c, err := net.Dial(network, at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStrangersGetNothing(t *testing.T) {
	leavesNothing(t)
	knock := func(key []byte) string {
		k := wire.Knock(key, job)
		return string(k[:])
	}
	otherKey := bytes.Repeat([]byte("x"), 32)
	repeated := knock(jobKey)
	greeting := "coppice\x00\x01\x00\x00\x00" + strings.Repeat("n", 32)
	for _, kind := range kinds {
		one := start(t, 1, func(cfg *transport.Config) {
			cfg.HandshakeTime = 100 * time.Millisecond
			cfg.Decide = func(wire.Identity) (wire.Identity, wire.Refusal) {
				t.Error("was asked about a stranger")
				return wire.Identity{}, wire.Accepted
			}
		}, place(t, kind))
		for _, c := range []struct {
			name, says string
			hears      int // bytes at most
		}{
			{"nothing", "", 0},
			{"half a knock", knock(jobKey)[:20], 0},
			{"garbage", strings.Repeat("\xff", 1000), 0},
			{"http", "GET / HTTP/1.1\r\nHost: example\r\n\r\n", 0},
			{"a greeting at once", greeting, 0},
			{"another key", knock(otherKey) + greeting, 0},
			{"a knock and no more", repeated, 0},
			{"the same knock again", repeated + greeting, 0},
			{"a knock, garbage", knock(jobKey) + strings.Repeat("\xff", 1000), 100},
			{"a knock, a greeting, zeroes", knock(jobKey) + greeting + strings.Repeat("\x00", 1000), 100},
		} {
			conn := plainly(t, one.Addresses()[0])
			_, _ = conn.Write([]byte(c.says))
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			heard, err := io.ReadAll(conn)
			if len(heard) > c.hears || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s, %s: hears %q, %v", kind, c.name, heard, err)
			}
			_ = conn.Close()
		}
		if len(one.got) > 0 {
			t.Errorf("%s: a stranger got in", kind)
		}
	}
}

// TestTLSProvesNothingByItself: whoever sits between two processes, and passes on what they say to prove the key, is turned away by both.
func TestTLSProvesNothingByItself(t *testing.T) {
	leavesNothing(t)
	one := start(t, 1, func(cfg *transport.Config) {
		cfg.Decide = func(wire.Identity) (wire.Identity, wire.Refusal) {
			t.Error("was asked")
			return wire.Identity{}, wire.Accepted
		}
	}, place(t, transport.TLS))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var between sync.WaitGroup
	between.Go(func() {
		var knock [wire.KnockLen]byte
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to := plainly(t, one.Addresses()[0])
			_, _ = io.ReadFull(from, knock[:])
			_, _ = to.Write(knock[:])
			left, _ := wire.Server(from)
			right, _ := wire.Client(to)
			between.Go(func() { _, _ = io.Copy(left, right); left.Close() })
			between.Go(func() { _, _ = io.Copy(right, left); right.Close() })
		}
	})
	at := one.Addresses()[0]
	at.Host = l.Addr().(*net.TCPAddr).AddrPort()
	if c, err := start(t, 2, nil).dial(t, at); err == nil {
		t.Error("a connection was made through a stranger")
		c.Close()
	}
	l.Close()
	between.Wait()
}

// TestOldTLS is refused.
func TestOldTLS(t *testing.T) {
	leavesNothing(t)
	one := start(t, 1, nil, place(t, transport.TLS))
	conn := plainly(t, one.Addresses()[0])
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	k := wire.Knock(jobKey, job)
	_, _ = conn.Write(k[:])
	err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).Handshake()
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// TestOtherJobsAreTurnedAway: endpoints with another key or another job hear
// nothing, and nobody is asked about them.
func TestOtherJobsAreTurnedAway(t *testing.T) {
	leavesNothing(t)
	for _, kind := range kinds {
		one := start(t, 1, func(cfg *transport.Config) {
			cfg.Decide = func(wire.Identity) (wire.Identity, wire.Refusal) {
				t.Error("was asked")
				return wire.Identity{}, wire.Accepted
			}
		}, place(t, kind))
		for name, change := range map[string]func(*transport.Config){
			"another key": func(cfg *transport.Config) { cfg.Key = bytes.Repeat([]byte("x"), 32) },
			"another job": func(cfg *transport.Config) { cfg.Self.Job = [16]byte{9} },
		} {
			c, err := start(t, 2, change).dial(t, one.Addresses()[0])
			if c != nil || !errors.Is(err, transport.ErrUnheard) {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
		}
	}
}

func TestRefusalsReachTheDialer(t *testing.T) {
	leavesNothing(t)
	for _, kind := range kinds {
		for _, reason := range []wire.Refusal{wire.Crossed, wire.Lost, wire.Excluded, wire.Closing} {
			one := start(t, 1, func(cfg *transport.Config) {
				cfg.Decide = func(wire.Identity) (wire.Identity, wire.Refusal) { return wire.Identity{}, reason }
			}, place(t, kind))
			_, err := start(t, 2, nil).dial(t, one.Addresses()[0])
			var got wire.Refusal
			if !errors.As(err, &got) || got != reason {
				t.Errorf("%s: %v arrives as %v", kind, reason, err)
			}
			_ = one.Close()
			if len(one.got)+len(one.abandoned) > 0 {
				t.Errorf("%s: %v, and yet established", kind, reason)
			}
		}
		one := start(t, 1, nil, place(t, kind))
		_, err := start(t, 2, nil).Dial(t.Context(), one.Addresses()[0], wire.Identity{To: 3}, 0)
		if !errors.Is(err, wire.NotMe) {
			t.Errorf("%s: meant for another: %v", kind, err)
		}
	}
}

// TestOneOfTwoCrossedConnectionsStays: both dial at once, again and again; the
// one whose rank is higher is refused.
func TestOneOfTwoCrossedConnectionsStays(t *testing.T) {
	leavesNothing(t)
	for _, kind := range kinds {
		crossed := func(rank uint32) func(*transport.Config) {
			return func(cfg *transport.Config) {
				cfg.Decide = func(peer wire.Identity) (wire.Identity, wire.Refusal) {
					if peer.From > rank {
						return wire.Identity{}, wire.Crossed
					}
					return wire.Identity{}, wire.Accepted
				}
			}
		}
		one, two := start(t, 1, crossed(1), place(t, kind)), start(t, 2, crossed(2), place(t, kind))
		for range 20 {
			var both sync.WaitGroup
			both.Go(func() {
				c, err := one.Dial(t.Context(), two.Addresses()[0], wire.Identity{To: 2}, 0)
				if err != nil {
					t.Errorf("%s: 1 to 2: %v", kind, err)
					return
				}
				_ = c.Close()
			})
			both.Go(func() {
				if _, err := two.Dial(t.Context(), one.Addresses()[0], wire.Identity{To: 1}, 0); !errors.Is(err, wire.Crossed) {
					t.Errorf("%s: 2 to 1: %v", kind, err)
				}
			})
			both.Wait()
			_ = two.accepted(t).Close()
		}
	}
}

// TestAbandonedConnectionsAreTold: Decide said yes, and then the peer was gone.
func TestAbandonedConnectionsAreTold(t *testing.T) {
	leavesNothing(t)
	gone := make(chan struct{})
	one := start(t, 1, func(cfg *transport.Config) {
		cfg.Decide = func(wire.Identity) (wire.Identity, wire.Refusal) {
			<-gone
			return wire.Identity{}, wire.Accepted
		}
	}, place(t, transport.Unix))
	conn := plainly(t, one.Addresses()[0])
	k := wire.Knock(jobKey, job)
	_, _ = conn.Write(k[:])
	me := wire.Identity{Job: job, From: 2, To: 1, Incarnation: 3}
	_, err := wire.Connect(&hasty{Conn: conn, writes: 2}, jobKey, nil, me)
	if err == nil {
		t.Fatal("no error")
	}
	close(gone)
	select {
	case peer := <-one.abandoned:
		if peer != me {
			t.Errorf("%+v", peer)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody is told")
	}
	if len(one.got) > 0 {
		t.Error("established")
	}
}

// hasty closes after so many writes.
type hasty struct {
	net.Conn
	writes int
}

func (h *hasty) Write(b []byte) (int, error) {
	n, err := h.Conn.Write(b)
	if h.writes--; h.writes == 0 {
		_ = h.Conn.Close()
	}
	return n, err
}

func TestDialEndsWithItsContextAndItsEndpoint(t *testing.T) {
	leavesNothing(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its backlog, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, kind := range []string{transport.TCP, transport.TLS} {
		at := transport.Address{Kind: kind, Host: silent.Addr().(*net.TCPAddr).AddrPort()}
		one := start(t, 1, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		began := time.Now()
		if _, err := one.Dial(ctx, at, wire.Identity{To: 2}, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
		time.AfterFunc(20*time.Millisecond, func() { _ = one.Close() })
		if _, err := one.Dial(t.Context(), at, wire.Identity{To: 2}, 0); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("%s: it takes %v", kind, d)
		}
		if _, err := one.Dial(t.Context(), at, wire.Identity{To: 2}, 0); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		brief := start(t, 1, func(cfg *transport.Config) { cfg.HandshakeTime = 20 * time.Millisecond })
		if c, err := brief.dial(t, at); err == nil {
			t.Error(c)
		}
	}
}

// TestCloseEndsHandshakes: with strangers and half-made handshakes about.
func TestCloseEndsHandshakes(t *testing.T) {
	leavesNothing(t)
	for _, kind := range kinds {
		one := start(t, 1, nil, place(t, kind))
		for i := range 20 {
			c := plainly(t, one.Addresses()[0])
			defer c.Close()
			if k := wire.Knock(jobKey, job); i%2 == 0 {
				_, _ = c.Write(k[:])
			}
		}
		began := time.Now()
		if err := one.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("%s: it takes %v", kind, d)
		}
		if err := one.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// lines counts what is logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// TestNoDescriptorsIsNoEnd: accepting goes on once there are descriptors again.
func TestNoDescriptorsIsNoEnd(t *testing.T) {
	leavesNothing(t)
	var log lines
	one := start(t, 1, func(cfg *transport.Config) { cfg.Logger = log.logger() }, place(t, transport.TCP))
	two := start(t, 2, nil)

	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 100
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var taken []int
	give := func() {
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		for _, fd := range taken {
			_ = unix.Close(fd)
		}
		taken = nil
	}
	defer give()
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	_ = unix.Close(taken[0]) // one is left, for the stranger's own end
	taken = taken[1:]
	stranger := plainly(t, one.Addresses()[0])
	defer stranger.Close()
	time.Sleep(100 * time.Millisecond)
	if n := log.count("cannot accept"); n != 1 {
		t.Errorf("%d lines about it", n)
	}
	give()
	c, err := two.dial(t, one.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	_ = one.accepted(t).Close()
}
