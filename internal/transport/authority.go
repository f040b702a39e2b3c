package transport

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// The job's certificates. Who has the job's key has its certificate authority,
// derived from the key, and needs nothing else: every process makes a key and a
// certificate of its own when it first needs them and keeps them in memory. TLS hides what
// is said and ties it to the channel; who the peer is, the handshake inside
// proves, and the certificate must say the same.

// serverName is in every certificate: what matters is who signed it.
const serverName = "coppice"

// Certificates are as good as the key, which lives as long as the job: clocks,
// which differ from host to host, have no part in it.
var (
	validFrom  = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	validUntil = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	today      = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)
)

// authority returns the job's certificate authority: the same for all who know
// the key.
func authority(key []byte, job [16]byte) (*x509.Certificate, ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, key, job[:], "coppice certificate authority 1", ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	private := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: fmt.Sprintf("coppice job %x", job)},
		NotBefore:             validFrom,
		NotAfter:              validUntil,
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(nil, template, template, private.Public(), private) // Ed25519 needs no randomness
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, private, err
}

// tlsConfig returns the settings of a process, for both roles.
func tlsConfig(key []byte, self wire.Identity) (*tls.Config, error) {
	ca, caKey, err := authority(key, self.Job)
	if err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(2)),
		Subject:      pkix.Name{CommonName: fmt.Sprintf("coppice process %d", self.From)},
		NotBefore:    validFrom,
		NotAfter:     validUntil,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{serverName},
		URIs:         []*url.URL{processURI(self)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, public, caKey)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &tls.Config{
		Certificates:                []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
		RootCAs:                     pool,
		ClientCAs:                   pool,
		ClientAuth:                  tls.RequireAndVerifyClientCert,
		ServerName:                  serverName,
		MinVersion:                  tls.VersionTLS13,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		Time:                        func() time.Time { return today },
	}, nil
}

// processURI names a process in its certificate.
func processURI(id wire.Identity) *url.URL {
	return &url.URL{Scheme: "coppice", Host: fmt.Sprintf("%x", id.Job), Path: fmt.Sprintf("/%d/%d", id.From, id.Incarnation)}
}

var errCertificate = errors.New("the certificate is that of another process")

// checkCertificate compares who the peer says it is with its certificate.
func checkCertificate(state *tls.ConnectionState, peer wire.Identity) error {
	if len(state.PeerCertificates) == 0 {
		return errCertificate
	}
	uris := state.PeerCertificates[0].URIs
	if len(uris) != 1 || uris[0].String() != processURI(peer).String() {
		return errCertificate
	}
	return nil
}
