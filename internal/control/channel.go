package control

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// secure makes a channel of a connection, in the role of wire.Client or wire.Server, and returns what binds the handshake to it. A connection
// on this host stays what it is.
func secure(conn net.Conn, role func(net.Conn) (*tls.Conn, error)) (net.Conn, []byte, error) {
	if _, local := conn.(*net.UnixConn); local {
		return conn, nil, nil
	}
	secured, err := role(conn)
	if err != nil {
		return nil, nil, err
	}
	binding, err := wire.Binding(secured)
	return secured, binding, err
}

// ListenPorts listens at a free port of HOST:PORT or HOST:LOW-HIGH: at the first one, or at the last one.
func ListenPorts(address string, last bool) (net.Listener, error) {
	host, ports, err := net.SplitHostPort(address)
	low, high, ranged := strings.Cut(ports, "-")
	if err != nil || !ranged {
		return listenTCP(address)
	}
	port, err1 := strconv.ParseUint(low, 10, 16)
	end, err2 := strconv.ParseUint(high, 10, 16)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	step := uint64(1)
	if last {
		port, end, step = end, port, ^uint64(0) // −1
	}
	for ; ; port += step {
		l, err := listenTCP(net.JoinHostPort(host, strconv.FormatUint(port, 10)))
		if err == nil || port == end || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
}

// listenTCP listens at an address. If the address is not one of this host's own but
// leads to it, listenTCP listens on its port on all interfaces. It does the same for a name that does not resolve here, or only to this host, as
// the host's own name does if it is in /etc/hosts with 127.0.1.1. Other processes wait for the listener, and a DNS
// server may be slow to answer.
func listenTCP(address string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), seedTry)
	defer cancel()
	host, port, e := net.SplitHostPort(address)
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	var unknown *net.DNSError
	switch {
	case e != nil:
		return l, err
	case errors.Is(err, syscall.EADDRNOTAVAIL) || errors.As(err, &unknown) || err != nil && ctx.Err() != nil:
		return net.Listen("tcp", ":"+port)
	case err == nil && host != "" && host != "localhost" && net.ParseIP(host) == nil && l.Addr().(*net.TCPAddr).IP.IsLoopback():
		l.Close()
		return net.Listen("tcp", ":"+port)
	}
	return l, err
}

// dial opens a connection to a path or to host:port.
func dial(ctx context.Context, address string, reach time.Duration) (net.Conn, error) {
	network := "tcp"
	if filepath.IsAbs(address) {
		network = "unix"
	}
	// If two callers ask one resolver for a name at the same time, they share the answer, and so does a later caller, for as long as the answer is
	// awaited: over half a minute if a DNS server is silent, whatever their contexts say. So each caller has its own resolver.
	shared := net.DefaultResolver
	d := net.Dialer{Timeout: reach, Resolver: &net.Resolver{PreferGo: shared.PreferGo, StrictErrors: shared.StrictErrors, Dial: shared.Dial}}
	return d.DialContext(ctx, network, address)
}
