package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"time"
)

// Connections that leave the host are encrypted. The certificates prove nothing: each process makes its
// own when it first needs one. The handshake with the job's key, bound to the channel by its exporter,
// proves to each end the identity of the other, and that nobody sits between them.

// Client begins TLS on a connection that this process opened.
func Client(conn net.Conn) (*tls.Conn, error) { return tls.Client(conn, settings), nil }

// Server begins TLS on a connection that this process accepted.
func Server(conn net.Conn) (*tls.Conn, error) {
	s, err := server()
	return tls.Server(conn, s), err
}

var settings = &tls.Config{
	InsecureSkipVerify:          true,
	MinVersion:                  tls.VersionTLS13,
	SessionTicketsDisabled:      true,
	DynamicRecordSizingDisabled: true,
}

// server returns the settings with a certificate.
var server = sync.OnceValues(func() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	s := settings.Clone()
	s.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return s, err
})

// Binding makes the TLS handshake, unless it was made before, and returns the bytes that tie Connect
// and Accept to this channel.
func Binding(conn *tls.Conn) ([]byte, error) {
	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	return state.ExportKeyingMaterial("EXPORTER-coppice-handshake", nil, 32)
}
