package control

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What leaves the host is encrypted. The certificates prove nothing: they are
// drawn for the occasion, and the handshake with the job's key, bound to the
// channel by its exporter, shows each end that nobody sits between them.

const exporterLabel = "EXPORTER-coppice-control"

// certificate is this process's, made when it is first needed.
var certificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().AddDate(100, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

// secureAccepted makes a channel of a connection that a peer opened: what it is
// for one on this host.
func secureAccepted(conn net.Conn) (net.Conn, []byte, error) {
	if _, local := conn.(*net.UnixConn); local {
		return conn, nil, nil
	}
	cert, err := certificate()
	if err != nil {
		return nil, nil, err
	}
	return bind(tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}))
}

// secureOpened makes a channel of a connection that we opened.
func secureOpened(conn net.Conn) (net.Conn, []byte, error) {
	if _, local := conn.(*net.UnixConn); local {
		return conn, nil, nil
	}
	return bind(tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}))
}

func bind(c *tls.Conn) (net.Conn, []byte, error) {
	if err := c.Handshake(); err != nil {
		return nil, nil, err
	}
	state := c.ConnectionState()
	binding, err := state.ExportKeyingMaterial(exporterLabel, nil, 32)
	return c, binding, err
}

// listenPorts listens at the first free port of HOST:PORT or HOST:LOW-HIGH.
func listenPorts(address string) (net.Listener, error) {
	host, ports, err := net.SplitHostPort(address)
	low, high, ranged := strings.Cut(ports, "-")
	if err != nil || !ranged {
		return listenTCP(address)
	}
	first, err1 := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for port := first; ; port++ {
		l, err := listenTCP(net.JoinHostPort(host, strconv.FormatUint(port, 10)))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || port >= last {
			return l, err
		}
	}
}

// listenTCP listens at an address or, if that is not one of this host's own but
// leads to it, at its port: so it does for a name that means nothing here, or only this host, as
// the host's own name does where it is in /etc/hosts with 127.0.1.1. Others wait for it, and a server of
// names may be long in answering.
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
func dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if filepath.IsAbs(address) {
		network = "unix"
	}
	// Two who ask one resolver for a name at the same time share the answer, and who comes later does, too, for as long as that is
	// awaited: over half a minute if a server of names is silent, whatever their contexts say. So each has its own.
	shared := net.DefaultResolver
	d := net.Dialer{Resolver: &net.Resolver{PreferGo: shared.PreferGo, StrictErrors: shared.StrictErrors, Dial: shared.Dial}}
	return d.DialContext(ctx, network, address)
}
