//go:build unix

package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/coppice-go/coppice/internal/wire"
)

// TestAuthorityIsTheJobsOwn: the same for all who know the key, and no other's.
func TestAuthorityIsTheJobsOwn(t *testing.T) {
	key, other := bytes.Repeat([]byte("k"), 32), bytes.Repeat([]byte("o"), 32)
	der := func(key []byte, job byte) []byte {
		ca, _, err := authority(key, [16]byte{job})
		if err != nil {
			t.Fatal(err)
		}
		return ca.Raw
	}
	if !bytes.Equal(der(key, 1), der(key, 1)) {
		t.Error("two processes of a job have two authorities")
	}
	if bytes.Equal(der(key, 1), der(other, 1)) || bytes.Equal(der(key, 1), der(key, 2)) {
		t.Error("two jobs have the same authority")
	}
}

func TestCertificateSaysWhoseItIs(t *testing.T) {
	key := bytes.Repeat([]byte("k"), 32)
	id := wire.Identity{Job: [16]byte{1}, From: 3, Incarnation: 4, View: 5}
	cfg, err := tlsConfig(key, id)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(cfg.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	if err := checkCertificate(state, id); err != nil {
		t.Error(err)
	}
	for _, other := range []wire.Identity{
		{Job: [16]byte{2}, From: 3, Incarnation: 4},
		{Job: [16]byte{1}, From: 4, Incarnation: 4},
		{Job: [16]byte{1}, From: 3, Incarnation: 5},
	} {
		if checkCertificate(state, other) == nil {
			t.Errorf("it passes as that of %+v", other)
		}
	}
	if checkCertificate(&tls.ConnectionState{}, id) == nil {
		t.Error("none is enough")
	}
	for name, pool := range map[string]*x509.CertPool{"servers": cfg.RootCAs, "clients": cfg.ClientCAs} {
		stranger, _ := tlsConfig(key, wire.Identity{Job: [16]byte{9}})
		opts := x509.VerifyOptions{Roots: pool, CurrentTime: today, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
		if _, err := leaf.Verify(opts); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		opts.Roots = stranger.RootCAs
		if _, err := leaf.Verify(opts); err == nil {
			t.Errorf("%s: another job takes it", name)
		}
	}
}
