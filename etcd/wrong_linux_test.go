package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// authority signs certificates for a test, into files of a directory.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.make("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)})
	return a
}

// make makes a certificate; that of the authority signs itself.
func (a *authority) make(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject, c.NotBefore = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}, time.Now().Add(-2*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(a.file(name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

// sign makes a certificate of this host for server or client that ends at a time.
func (a *authority) sign(name string, until time.Time) {
	a.make(name, &x509.Certificate{
		NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// flags are those of an etcd with the certificate of a name.
func (a *authority) flags(name string, clients bool) []string {
	flags := []string{"--cert-file", a.file(name + ".crt"), "--key-file", a.file(name + ".key")}
	if clients {
		flags = append(flags, "--client-cert-auth", "--trusted-ca-file", a.file("ca.crt"))
	}
	return flags
}

// refused runs a process that must end with one line, within a time, that has all of these words.
func refused(t *testing.T, j *job, within time.Duration, env []string, words ...string) {
	t.Helper()
	began := time.Now()
	p := j.startOne(env...)
	select {
	case <-p.done:
	case <-time.After(within + 20*time.Second):
		j.fail("it does not end")
	}
	took := time.Since(began)
	var said []string
	for line := range strings.Lines(p.err.String()) {
		if !strings.HasPrefix(line, "time=") { // the log
			said = append(said, line)
		}
	}
	if p.ended == nil || len(said) != 1 || took > within {
		t.Errorf("%v: ended with %v after %v, and said %q; want one line within %v", env, p.ended, took, said, within)
		return
	}
	t.Logf("%v: %s", took.Round(10*time.Millisecond), said[0])
	for _, word := range words {
		if !strings.Contains(said[0], word) {
			t.Errorf("%v: %q has no %q", env, said[0], word)
		}
	}
}

// busy is what a busy machine may add to a time.
const busy = 15 * time.Second

// TestWrongVariables: what is wrong with the variables alone is said at once.
func TestWrongVariables(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("old", time.Now().Add(-time.Hour))
	a.sign("client", time.Now().Add(time.Hour))
	j := newJob(t, &server{clients: []string{"127.0.0.1:1"}}, "wrong", 2, false)
	for _, c := range []struct {
		env   []string
		words []string
	}{
		{[]string{"COPPICE_RENDEZVOUS=etcd:a:2379/job"}, []string{"COPPICE_RENDEZVOUS=", "allowed: etcd://HOST:PORT"}},
		{[]string{"COPPICE_RENDEZVOUS=etcd://a:2379"}, []string{"COPPICE_RENDEZVOUS=", "allowed: etcd://HOST:PORT"}},
		{[]string{"COPPICE_RENDEZVOUS=etcd://a:2379/"}, []string{"COPPICE_RENDEZVOUS=", `the job ""`, "allowed: etcd://HOST:PORT"}},
		{[]string{"COPPICE_RENDEZVOUS=etcd://a:2379/a/b"}, []string{"COPPICE_RENDEZVOUS=", `the job "a/b"`, "letters, digits"}},
		{[]string{"COPPICE_RENDEZVOUS=etcd://a:2379,b:many/job"}, []string{"COPPICE_RENDEZVOUS=", `"b:many"`, "allowed: etcd://HOST:PORT"}},
		{[]string{"COPPICE_RENDEZVOUS=etcd://a:2379,,b/job"}, []string{"COPPICE_RENDEZVOUS=", `address ""`, "allowed: etcd://HOST:PORT"}},
		{[]string{"COPPICE_RENDEZVOUS=zk://a:2379/job"}, []string{"COPPICE_RENDEZVOUS", `"zk://"`, "allowed: etcd://, etcds://"}},
		{[]string{"COPPICE_RENDEZVOUS=etcd://u:swordfish@a:2379/job"}, []string{"COPPICE_RENDEZVOUS has a user in it", "COPPICE_ETCD_USER"}},
		{[]string{"COPPICE_COORDINATOR=a:1,b:1"}, []string{"COPPICE_RENDEZVOUS and COPPICE_COORDINATOR are both set"}},
		{[]string{"COPPICE_SIZE="}, []string{"not COPPICE_SIZE", "begins with"}},
		{[]string{"COPPICE_SIZE=none"}, []string{`COPPICE_SIZE="none"`, "allowed"}},
		{[]string{"COPPICE_GROW=-1"}, []string{`COPPICE_GROW="-1"`, "allowed"}},
		{[]string{"COPPICE_RANK=2"}, []string{`COPPICE_RANK="2"`, "from 0 to 1"}},
		{[]string{"COPPICE_KEY="}, []string{"COPPICE_RENDEZVOUS is set, but no key", "COPPICE_KEY_FILE"}},
		{[]string{varLease + "=1"}, []string{varLease + `="1"`, "allowed: a time from 2s"}},
		{[]string{varUser + "=me"}, []string{varUser + " is set, but not " + varPassword}},
		{[]string{varPassword + "=me"}, []string{varPassword + " is set, but not " + varUser}},
		{[]string{varCACert + "=/missing"}, []string{varCACert, "/missing", "no such file"}},
		{[]string{varCACert + "=" + a.file("ca.key")}, []string{varCACert, "no certificate in it", "PEM"}},
		{[]string{varCert + "=" + a.file("client.crt")}, []string{varCert, varKey, "both"}},
		{[]string{varCert + "=" + a.file("client.crt"), varKey + "=" + a.file("ca.key")}, []string{varCert, varKey, "private key"}},
		{[]string{varCert + "=" + a.file("old.crt"), varKey + "=" + a.file("old.key")}, []string{varCert, "valid from", "allowed: a certificate that is valid now"}},
	} {
		refused(t, j, busy, c.env, c.words...)
		for _, p := range j.procs {
			if strings.Contains(p.err.String(), "swordfish") {
				t.Error("it tells the password")
			}
		}
	}
}

// TestEtcdIsDown: a process says that etcd does not run within 10 s, and that it has no majority.
func TestEtcdIsDown(t *testing.T) {
	t.Parallel()
	s := prepareServer(t, 3)
	j := newJob(t, s, "down", 2, false)
	refused(t, j, reachMax+busy, nil, "COPPICE_RENDEZVOUS=etcd://", "does not answer within 10s", "connection refused", "start etcd")
	const majority = "more than half of the members must run"
	s.start(0) // one that the others have not met
	refused(t, j, reachMax+answerMax+busy, nil, "COPPICE_RENDEZVOUS=etcd://", majority)
	s.start(1)
	s.await(s.client(t, nil))
	s.kill(0)
	refused(t, j, reachMax+answerMax+busy, nil, "COPPICE_RENDEZVOUS=etcd://", majority)
}

// TestEtcdComesLate: an etcd that starts while processes look for it is found.
func TestEtcdComesLate(t *testing.T) {
	t.Parallel()
	s := prepareServer(t, 3)
	j := newJob(t, s, "late", 2, false)
	j.start(2)
	time.Sleep(2 * time.Second)
	s.startAll()
	j.finish()
}

// TestCertificatesOfEtcd: what is wrong with the channel to etcd is said at once, with the variable that mends it.
func TestCertificatesOfEtcd(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	a.sign("server", time.Now().Add(time.Hour))
	a.sign("client", time.Now().Add(time.Hour))
	a.sign("old", time.Now().Add(-time.Hour))
	s := prepareServer(t, 1, a.flags("server", true)...)
	s.scheme = "https"
	s.start(0)
	pair, err := tls.LoadX509KeyPair(a.file("client.crt"), a.file("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s.await(s.client(t, func(c *clientv3.Config) { c.TLS = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}} }))
	client := []string{varCert + "=" + a.file("client.crt"), varKey + "=" + a.file("client.key")}
	j := newJob(t, s, "tls", 2, false)
	refused(t, j, busy, nil, "COPPICE_RENDEZVOUS=etcd://", "it speaks TLS", varCACert)
	refused(t, j, busy, append(client, varCACert+"="+other.file("ca.crt")), "unknown authority", varCACert)
	refused(t, j, reachMax+answerMax+busy, []string{varCACert + "=" + a.file("ca.crt")}, "COPPICE_RENDEZVOUS=etcd://", "certificate", "set "+varCert)

	well := newJob(t, s, "well", 2, false, append(client, varCACert+"="+a.file("ca.crt"))...)
	well.start(2)
	well.finish()

	old := prepareServer(t, 1, a.flags("old", false)...)
	old.scheme = "https"
	old.start(0)
	awaitPort(t, old.clients[0])
	refused(t, newJob(t, old, "old", 2, false), busy, []string{varCACert + "=" + a.file("ca.crt")},
		"COPPICE_RENDEZVOUS=etcd://", "certificate has expired", "give etcd a certificate that is valid now")

	clear := prepareServer(t, 1)
	clear.start(0)
	awaitPort(t, clear.clients[0])
	refused(t, newJob(t, clear, "clear", 2, false), busy, []string{varCACert + "=" + a.file("ca.crt")},
		"COPPICE_RENDEZVOUS=etcd://", "it does not speak TLS", "unset "+varCACert)
}

// awaitPort waits until somebody listens.
func awaitPort(t *testing.T, address string) {
	t.Helper()
	for range 600 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("nobody listens at %s", address)
}

// TestUsersOfEtcd: a job runs with a user and a password; without, with a wrong one or without the right to its keys a process says so at once.
func TestUsersOfEtcd(t *testing.T) {
	t.Parallel()
	s := prepareServer(t, 1)
	s.start(0)
	c := s.client(t, nil)
	s.await(c)
	ctx := t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range []string{"root", "runner"} {
		do(c.RoleAdd(ctx, user))
		do(c.UserAdd(ctx, user, "open "+user))
		do(c.UserGrantRole(ctx, user, user))
	}
	const prefix = "/coppice/users/"
	do(c.RoleGrantPermission(ctx, "runner", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite)))
	do(c.AuthEnable(ctx))
	j := newJob(t, s, "users", 2, false)
	refused(t, j, busy, nil, "COPPICE_RENDEZVOUS=etcd://", "etcd wants a user", varUser)
	refused(t, j, busy, []string{varUser + "=runner", varPassword + "=wrong"}, "COPPICE_RENDEZVOUS=etcd://", `no user "runner" with this password`, varPassword)
	refused(t, newJob(t, s, "elsewhere", 2, false), busy, []string{varUser + "=runner:open runner"},
		`"runner" may not use the keys of the job`, "etcdctl role grant-permission ROLE readwrite --prefix=true /coppice/elsewhere/")
	well := newJob(t, s, "users", 2, false, varUser+"=runner", varPassword+"=open runner")
	well.start(2)
	well.finish()
}

// TestOthersOfTheJobDiffer: processes of another size, or with another key, say so.
func TestOthersOfTheJobDiffer(t *testing.T) {
	t.Parallel()
	s := prepareServer(t, 1)
	s.start(0)
	s.await(s.client(t, nil))
	j := newJob(t, s, "differ", 2, true)
	j.start(2)
	j.awaitStep(3)
	stranger := newJob(t, s, "differ", 2, true)
	refused(t, stranger, busy, []string{"COPPICE_SIZE=3"}, "COPPICE_SIZE=3", "has 2", "the same for all")
	stranger.key = "another key for this job"
	refused(t, stranger, 10*time.Second+busy, nil, "another key", "COPPICE_KEY_FILE or COPPICE_KEY")
	j.finish()
}
