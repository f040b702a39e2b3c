//go:build unix

package transport_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"

	"golang.org/x/sys/unix"
)

// stranger connects to a port of this host, without package net: it costs this
// process next to nothing.
func stranger(port uint16) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	for {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

const floodVariable = "COPPICE_TEST_FLOOD" // PORT COUNT: connect so often to this port

// strangers starts a process that makes so many connections.
func strangers(t *testing.T, port uint16, count int) (over <-chan error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFlood$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", floodVariable, port, count))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended
}

// TestFlood is no test but a process that others start: 2,000 of its connections
// are open at a time; some say nothing, some say something.
func TestFlood(t *testing.T) {
	var port uint16
	var count int
	if n, _ := fmt.Sscan(os.Getenv(floodVariable), &port, &count); n != 2 {
		t.Skip("is a process that other tests start; there is nothing to run by itself")
	}
	const workers, open = 4, 500
	var all sync.WaitGroup
	var failed atomic.Int64
	for range workers {
		all.Go(func() {
			var held [open]int
			for i := range count / workers {
				fd, err := stranger(port)
				if err != nil {
					failed.Add(1)
					continue
				}
				if i%4 == 0 {
					_, _ = unix.SendmsgN(fd, make([]byte, 40), nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
				}
				if old := held[i%open]; old != 0 {
					_ = unix.Close(old)
				}
				held[i%open] = fd
			}
		})
	}
	all.Wait()
	if n := failed.Load(); n > int64(count/100) {
		t.Fatalf("%d of %d could not connect", n, count)
	}
}

// TestPeersGetInAmongStrangers: 40,000 connections of strangers, 2,000 at a
// time, and meanwhile a peer connects again and again and gets in every time.
func TestPeersGetInAmongStrangers(t *testing.T) {
	leavesNothing(t)
	count := 40_000
	if !extent.Full() {
		count = 10_000
	}
	for _, kind := range []string{transport.TCP, transport.TLS} {
		var log lines
		one := start(t, 1, func(cfg *transport.Config) { cfg.Logger = log.logger() }, place(t, kind))
		two := start(t, 2, nil)
		at := one.Addresses()[0]

		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		over := strangers(t, at.Host.Port(), count/2)
		dials, slowest, goroutines := 0, time.Duration(0), 0
		for more := true; more; dials++ {
			began := time.Now()
			c, err := two.dial(t, at)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			_ = c.Close()
			_ = one.accepted(t).Close()
			slowest = max(slowest, time.Since(began))
			goroutines = max(goroutines, runtime.NumGoroutine())
			select {
			case err := <-over:
				more = false
				if err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			case <-time.After(5 * time.Millisecond):
			}
		}
		runtime.ReadMemStats(&after)
		t.Logf("%s: %d strangers, %d bytes allocated for each; %d dials, the slowest %v; %d goroutines at most",
			kind, count/2, (after.TotalAlloc-before.TotalAlloc)/uint64(count/2), dials, slowest, goroutines)
		if goroutines > 2*256+50 {
			t.Errorf("%s: %d goroutines", kind, goroutines)
		}
		if slowest > 4*time.Second {
			t.Errorf("%s: a peer waited for %v", kind, slowest)
		}
		_ = one.Close()
		if n := log.count("turned strangers away"); n == 0 || n > 12 {
			t.Errorf("%s: %d lines about strangers", kind, n)
		}
	}
}

// TestStrangersThatStayDoNotKeepPeersOut: they connect, say nothing and never
// close.
func TestStrangersThatStayDoNotKeepPeersOut(t *testing.T) {
	leavesNothing(t)
	one := start(t, 1, nil, place(t, transport.TLS))
	at := one.Addresses()[0]
	for range 1500 {
		fd, err := stranger(at.Host.Port())
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	began := time.Now()
	if _, err := start(t, 2, nil).dial(t, at); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > 3*time.Second { // less than the handshake of a stranger may take
		t.Errorf("a peer waited for %v", d)
	}
}

// TestOldestStrangersGoFirst: a peer that takes its time to knock stays while
// those who came before it and say nothing are shown out.
func TestOldestStrangersGoFirst(t *testing.T) {
	leavesNothing(t)
	one := start(t, 1, nil, place(t, transport.TCP))
	at := one.Addresses()[0]
	come := func(n int) {
		for range n {
			fd, err := stranger(at.Host.Port())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Close(fd) })
		}
	}
	come(200)
	peer := plainly(t, at)
	defer peer.Close()
	come(100) // 256 are reached
	if _, err := start(t, 2, nil).dial(t, at); err != nil {
		t.Fatal(err) // and now all of them were accepted
	}
	k := wire.Knock(jobKey, job)
	_, _ = peer.Write(k[:])
	if _, err := wire.Connect(peer, jobKey, nil, wire.Identity{Job: job, From: 2, To: 1}); err != nil {
		t.Error(err)
	}
}

// TestManyPeersAtOnce: more than there are handshakes at a time. The rest wait.
func TestManyPeersAtOnce(t *testing.T) {
	const many = 50
	leavesNothing(t)
	for _, kind := range kinds {
		one := start(t, 1, func(cfg *transport.Config) { cfg.GuestsMax, cfg.HandshakeTime = 4, time.Minute }, place(t, kind))
		two := start(t, 2, func(cfg *transport.Config) { cfg.HandshakeTime = time.Minute }) // on a busy machine all together take longer than one usually may
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				if _, err := two.dial(t, one.Addresses()[0]); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			})
		}
		all.Wait()
		for range many {
			one.accepted(t)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	leavesNothing(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	free := l.Addr().(*net.TCPAddr).AddrPort()
	for _, a := range []transport.Address{
		{Kind: transport.TCP, Host: free},
		{Kind: transport.TLS, Host: free},
		{Kind: transport.Unix, Path: place(t, transport.Unix).Path},
	} {
		_, err := start(t, 2, nil).dial(t, a)
		if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("%v: %v", a, err)
		}
	}
}
