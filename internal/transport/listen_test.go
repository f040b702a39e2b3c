//go:build unix

package transport_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"

	"golang.org/x/sys/unix"
)

// listens starts an endpoint of process 1 that refuses everybody.
func listens(at ...transport.Place) (*transport.Endpoint, error) {
	return transport.Listen(transport.Config{
		Key:         jobKey,
		Self:        wire.Identity{Job: job, From: 1},
		Decide:      func(wire.Identity) (wire.Identity, wire.Refusal) { return wire.Identity{}, wire.Closing },
		Established: func(*transport.Conn) {},
	}, at...)
}

// abandonSocket leaves a socket behind like a process that was killed.
func abandonSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
}

func TestSocketOfTheDeadIsReplaced(t *testing.T) {
	leavesNothing(t)
	at := place(t, transport.Unix)
	abandonSocket(t, at.Path)
	one := start(t, 1, nil, at)
	if _, err := start(t, 2, nil).dial(t, one.Addresses()[0]); err != nil {
		t.Error(err)
	}
	if _, err := listens(at); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a second time: %v", err)
	}
	if _, err := start(t, 2, nil).dial(t, one.Addresses()[0]); err != nil {
		t.Errorf("after another one tried: %v", err)
	}
	_ = one.Close()
	alone(t, at.Path, 0)
}

// alone wants n files in the folder of path: no drafts.
func alone(t *testing.T, path string, n int) {
	t.Helper()
	files, err := os.ReadDir(path[:strings.LastIndexByte(path, '/')])
	if err != nil || len(files) != n {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestOneOfManyGetsThePath: all find the socket of a dead process at once.
func TestOneOfManyGetsThePath(t *testing.T) {
	leavesNothing(t)
	at := place(t, transport.Unix)
	for range 30 {
		abandonSocket(t, at.Path)
		var all sync.WaitGroup
		var mu sync.Mutex
		var winners []*transport.Endpoint
		for range 8 {
			all.Go(func() {
				e, err := listens(at)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					winners = append(winners, e)
				} else if !errors.Is(err, unix.EADDRINUSE) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(winners) != 1 {
			t.Errorf("%d listen", len(winners))
		}
		alone(t, at.Path, 1)
		if _, err := start(t, 2, nil).dial(t, transport.Address{Kind: transport.Unix, Path: at.Path}); !errors.Is(err, wire.Closing) {
			t.Errorf("who listens does not answer: %v", err)
		}
		for _, e := range winners {
			_ = e.Close()
		}
		alone(t, at.Path, 0)
	}
}

func TestOtherFilesAreNotReplaced(t *testing.T) {
	leavesNothing(t)
	at := place(t, transport.Unix)
	if err := os.WriteFile(at.Path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listens(at); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Error(err)
	}
	if b, err := os.ReadFile(at.Path); string(b) != "mine" {
		t.Error(b, err)
	}
	alone(t, at.Path, 1)
}

func TestBadPlacesCannotBeListenedAt(t *testing.T) {
	leavesNothing(t)
	for want, at := range map[string]transport.Place{
		"allowed: up to":         {Kind: transport.Unix, Path: "/" + strings.Repeat("x", 107)},
		"allowed: an absolute":   {Kind: transport.Unix, Path: "x"},
		"allowed: a network of ": {Kind: transport.TCP, Net: netip.MustParsePrefix("240.0.0.0/24")},
		"allowed: unix, ":        {Kind: "udp"},
	} {
		if _, err := listens(at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", at, err)
		}
	}
	if _, err := listens(transport.Place{Kind: transport.Unix, Path: "/nowhere/to/be/found"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestPortsOfARange(t *testing.T) {
	leavesNothing(t)
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	// Below those that the system draws.
	first, err := listens(transport.Place{Kind: transport.TCP, Net: loopback, Low: uint16(20000 + rand.IntN(10000)), High: 32000})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	port := first.Addresses()[0].Host.Port()
	if _, err := listens(transport.Place{Kind: transport.TCP, Net: loopback, Low: port, High: port}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the same port: %v", err)
	}
	next, err := listens(transport.Place{Kind: transport.TCP, Net: loopback, Low: port, High: port + 5})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if got := next.Addresses()[0].Host.Port(); got <= port || got > port+5 {
		t.Errorf("port %d of %d to %d", got, port, port+5)
	}
}

// TestAddressesCanBeReached: of both kinds of socket at once, of all interfaces,
// of IPv6.
func TestAddressesCanBeReached(t *testing.T) {
	leavesNothing(t)
	places := [][]transport.Place{
		{place(t, transport.Unix), place(t, transport.TLS)},
		{{Kind: transport.TLS}},
	}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close()
		places = append(places, []transport.Place{{Kind: transport.TLS, Net: netip.MustParsePrefix("::1/128")}})
	}
	for _, at := range places {
		one, two := start(t, 1, nil, at...), start(t, 2, nil)
		if len(one.Addresses()) < len(at) {
			t.Errorf("%v: %v", at, one.Addresses())
		}
		for _, a := range one.Addresses() {
			if back, err := transport.ParseAddress(a.String()); err != nil || back != a {
				t.Errorf("%v comes back as %v, %v", a, back, err)
			}
			c, err := two.dial(t, a)
			if err != nil {
				t.Errorf("%v: %v", a, err)
				continue
			}
			_ = c.Close()
			_ = one.accepted(t).Close()
		}
	}
}

// TestRemovedSocketIsMadeAgain: by who listens, at the same path, and what is connected
// stays so.
func TestRemovedSocketIsMadeAgain(t *testing.T) {
	leavesNothing(t)
	at := place(t, transport.Unix)
	one := start(t, 1, nil, at)
	for range 3 {
		if err := os.Remove(at.Path); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time there is nothing to do
			if err := one.Keep(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := start(t, 2, nil).dial(t, one.Addresses()[0]); err != nil {
			t.Error(err)
		}
		alone(t, at.Path, 1)
	}
	_ = one.Close()
	if err := one.Keep(); err != nil {
		t.Error(err)
	}
	alone(t, at.Path, 0)
}

// A certificate costs milliseconds, which hundreds of processes that start on one host
// would spend for nothing.
func TestUnixSocketsNeedNoCertificate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.sock")
	allocations := testing.AllocsPerRun(10, func() {
		e, err := listens(transport.Place{Kind: transport.Unix, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
	const most = 120
	if allocations > most {
		t.Errorf("%v allocations to listen on a Unix socket; allowed: up to %d, without a certificate", allocations, most)
	}
}

// TestNobodyElsesDraftIsTaken: two processes of one path may draw the same name for the socket that they make, or for one that they move aside.
func TestNobodyElsesDraftIsTaken(t *testing.T) {
	leavesNothing(t)
	at := place(t, transport.Unix)
	const drafts = 1 << 12 // of 1<<16 names: one in 16 is taken
	for i := range drafts {
		if err := os.WriteFile(fmt.Sprintf("%s~%04x", at.Path, i<<4), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		abandonSocket(t, at.Path)
		e, err := listens(at)
		if err != nil {
			t.Fatal(err)
		}
		_ = e.Close()
	}
	alone(t, at.Path, drafts)
}
