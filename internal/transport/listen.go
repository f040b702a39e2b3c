package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/coppice-go/coppice/internal/posix"
)

// listen opens a socket at a place.
func listen(p Place) (listener, error) {
	switch p.Kind {
	case Unix:
		return listenUnix(p.Path)
	case TCP, TLS:
		return listenTCP(p)
	}
	return listener{}, fmt.Errorf("kind %q; allowed: %s, %s, %s", p.Kind, Unix, TCP, TLS)
}

// draftLen is the length of what is appended to a path while its socket is made.
const draftLen = 5

// pathMax is the length of the longest path at which one can listen.
func pathMax() int {
	if runtime.GOOS == "linux" {
		return 107 - draftLen
	}
	return 103 - draftLen
}

// listenUnix listens at a path, where there may be a socket of a dead process
// but not of one that lives. The socket is made under another name and linked
// when it listens: nobody finds one there that does not answer and takes it for
// dead.
func listenUnix(path string) (listener, error) {
	if err := checkPath(path); err != nil {
		return listener{}, err
	}
	if len(path) > pathMax() {
		return listener{}, fmt.Errorf("path of %d bytes; allowed: up to %d", len(path), pathMax())
	}
	draft, l, err := listenDraft(path)
	if err != nil {
		return listener{}, err
	}
	l.SetUnlinkOnClose(false)
	defer os.Remove(draft)
	var ours fs.FileInfo
	if err = publish(draft, path); err == nil {
		ours, err = os.Lstat(path)
	}
	if err != nil {
		_ = l.Close()
		return listener{}, err
	}
	return listener{Listener: l, kind: Unix, tells: []Address{{Kind: Unix, Path: path}}, path: path, file: ours}, nil
}

// listenDraft listens at a name beside a path that nobody else has.
func listenDraft(path string) (draft string, l *net.UnixListener, err error) {
	for range 10 {
		draft = path + suffix('~')
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: draft, Net: "unix"})
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return draft, l, err
}

// suffix is a random one of draftLen bytes. Sockets that are made have another mark than those that are moved aside, which would
// take their place.
func suffix(mark byte) string {
	var b [(draftLen - 1) / 2]byte
	_, _ = rand.Read(b[:]) // it never fails
	return string(mark) + hex.EncodeToString(b[:])
}

// publish gives a socket its name, unless a living process has it. One process of a
// directory does so at a time: while one looks at a socket that it has moved aside,
// another would take the name for free.
func publish(draft, path string) error {
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		defer dir.Close()
		_ = posix.Flock(dir, posix.LOCK_EX) // without it, two of one name may both listen
	}
	for {
		err := os.Link(draft, path)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := unlinkStale(path); err != nil {
			return err
		}
	}
}

// unlinkStale removes the socket of a dead process. Another one may be about to
// do the same and to put its own there, so it is moved aside and looked at again.
func unlinkStale(path string) error {
	if err := stale(path); err != nil {
		return ignoreMissing(err)
	}
	aside := path + suffix('^')
	if err := os.Rename(path, aside); err != nil {
		return ignoreMissing(err)
	}
	if err := stale(aside); err != nil {
		return errors.Join(err, os.Link(aside, path), os.Remove(aside))
	}
	return os.Remove(aside)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stale returns nil if at path there is a socket that nobody listens on.
func stale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is no socket", path)
	}
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	case !errors.Is(err, syscall.EAGAIN): // else it listens, and is busy
		return err
	}
	return fmt.Errorf("%s: %w: a process listens there", path, syscall.EADDRINUSE)
}

// listenTCP listens on the first free port.
func listenTCP(p Place) (listener, error) {
	hosts, err := hosts(p.Net)
	if err != nil {
		return listener{}, err
	}
	on := ""
	if p.Net.IsValid() {
		hosts = hosts[:1]
		on = hosts[0].String()
	}
	cfg := net.ListenConfig{KeepAlive: -1}
	cfg.SetMultipathTCP(false)
	for port := p.Low; ; port++ {
		l, err := cfg.Listen(context.Background(), "tcp", net.JoinHostPort(on, fmt.Sprint(port)))
		if err == nil {
			return told(l, p.Kind, hosts), nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || port >= p.High {
			return listener{}, err
		}
	}
}

// told adds what to tell the peers.
func told(l net.Listener, kind string, hosts []netip.Addr) listener {
	found := listener{Listener: l, kind: kind}
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	for _, h := range hosts {
		found.tells = append(found.tells, Address{Kind: kind, Host: netip.AddrPortFrom(h, port)})
	}
	return found
}

// hosts returns the addresses of this host in a network, those that other hosts
// can reach first, IPv4 before IPv6. Of all networks (the zero value) it returns
// loopback addresses only if there is nothing else.
func hosts(in netip.Prefix) (found []netip.Addr, err error) {
	all, err := prefixes()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if h := p.Addr().Unmap(); !in.IsValid() || in.Contains(h) {
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no interface has an address in %v; allowed: a network of %s", in, strings.Trim(fmt.Sprint(all), "[]"))
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	if !in.IsValid() && !found[0].IsLoopback() {
		found = slices.DeleteFunc(found, netip.Addr.IsLoopback)
	}
	return found, nil
}

// prefixes are the addresses of this host's interfaces, each with its network. A link-local one means nothing
// without its interface, and is left out.
func prefixes() (all []netip.Prefix, err error) {
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
			all = append(all, p)
		}
	}
	return all, err
}

func rank(a netip.Addr) (r int) {
	if a.IsLoopback() {
		r += 2
	}
	if a.Is6() {
		r++
	}
	return r
}
