package kubernetes

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Where the parts of the control plane listen, in the network of the tests.
const (
	etcdURL   = "http://127.0.0.1:23790"
	peerURL   = "http://127.0.0.1:23800"
	apiURL    = "https://127.0.0.1:26443"
	apiToken  = "token-of-the-tests"
	controls  = "job-controller,statefulset-controller,endpointslice-controller,namespace-controller,pod-garbage-collector-controller,disruption-controller"
	startTime = 3 * time.Minute
)

// cluster is a control plane.
type cluster struct {
	*kubernetes.Clientset
	dir string

	mu     sync.Mutex
	slices []discovery.EndpointSlice // the latest that the API server reported
}

// newCluster starts a cluster, and waits until it answers.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir()}
	run(t, "ip", "link", "set", "lo", "up")
	c.start(t, "etcd", "--data-dir", c.path("etcd"), "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL, "--unsafe-no-fsync")
	c.writeKeys(t)
	c.write(t, "tokens.csv", apiToken+",admin,admin,system:masters\n")
	c.start(t, "apiserver", "--etcd-servers="+etcdURL, "--secure-port=26443", "--bind-address=127.0.0.1", "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none", "--cert-dir="+c.path("certs"),
		"--service-account-key-file="+c.path("sa.pub"), "--service-account-signing-key-file="+c.path("sa.key"), "--service-account-issuer=https://k",
		"--token-auth-file="+c.path("tokens.csv"), "--authorization-mode=AlwaysAllow", "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount")
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: apiURL, BearerToken: apiToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 200, Burst: 400,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Clientset = client
	await(t, "the API server", startTime, func() bool {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), "default", meta.GetOptions{})
		return err == nil
	})
	c.write(t, "kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, apiURL, apiToken))
	c.start(t, "controllers", "--kubeconfig="+c.path("kubeconfig"), "--service-account-private-key-file="+c.path("sa.key"),
		"--controllers="+controls, "--leader-elect=false", "--secure-port=0")
	return c
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(c.path(name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeKeys writes the keys for tokens of service accounts.
func (c *cluster) writeKeys(t *testing.T) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, "sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	c.write(t, "sa.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
}

// start starts a part of the control plane. If the test fails, it logs the end of the part's output.
func (c *cluster) start(t *testing.T, part string, args ...string) {
	t.Helper()
	log, err := os.Create(c.path(part + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Getenv(controlPlaneVariable), append([]string{part}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if b, _ := os.ReadFile(log.Name()); t.Failed() && len(b) > 0 {
			t.Logf("%s: …%s", part, b[max(0, len(b)-2000):])
		}
	})
}

// secret makes a secret with a key for a job.
func (c *cluster) secret(t *testing.T, name string) {
	t.Helper()
	s := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: name}, StringData: map[string]string{"key": rand.Text()}}
	if _, err := c.CoreV1().Secrets("default").Create(t.Context(), s, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// run runs a command to its end.
func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// await waits for what must happen.
func await(t testing.TB, what string, limit time.Duration, happened func() bool) {
	t.Helper()
	for late := time.Now().Add(limit); !happened(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("no %s within %v", what, limit)
		}
	}
}

// background is a context for what continues after a test has ended.
var background = context.Background()
