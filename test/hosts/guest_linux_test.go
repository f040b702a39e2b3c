package hosts

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/test/stage"
)

// network is a few hosts that can be cut off from each other while a test runs.
type network struct {
	*hostNetwork
	dirs []string // of each host, for the directories of jobs
}

// newNetwork makes a network, or skips the test.
func newNetwork(t *testing.T, hosts int) *network {
	t.Helper()
	if os.Getenv(netnsVariable) == "" {
		t.Skipf("hosts that can be cut off need network namespaces: set %s=1 and be root, or see step integration of .ci/run", netnsVariable)
	}
	if missing := missingCommands(); missing != nil {
		t.Skipf("%v not installed: .ci/install-netns installs it", missing)
	}
	made, err := newHostNetwork(hosts, "/dev/shm")
	if errors.Is(err, errNoRight) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	n := &network{hostNetwork: made}
	for range hosts {
		dir, err := os.MkdirTemp("", "n") // short: for the paths of sockets
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		n.dirs = append(n.dirs, dir)
	}
	return n
}

// part cuts the hosts into sides that cannot reach each other.
func (n *network) part(t testing.TB, sides ...[]int) {
	t.Helper()
	if err := n.Part(sides...); err != nil {
		t.Fatal(err)
	}
}

// heal lets all hosts reach each other.
func (n *network) heal(t testing.TB) { n.part(t) }

// guest is a process on a host of the network.
type guest struct {
	stage.Script
	name string
	cmd  *exec.Cmd
	err  lockedBuffer
	over chan struct{}
}

// lockedBuffer is a buffer that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// play starts a process of this program on a host. It ends with the test.
func (n *network) play(t testing.TB, on int, name string, s stage.Scene, env ...string) *guest {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{name: name, cmd: exec.Command(self), over: make(chan struct{})}
	g.cmd.Env = slices.Concat(os.Environ(), s.Env(), []string{"COPPICE_JOBS_DIR=" + n.dirs[on]}, env)
	g.cmd.Stdout, g.cmd.Stderr = &g.Script, &g.err
	if err := n.Hosts[on].Start(g.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(g.over)
		_ = g.cmd.Wait() // its lines say more
	}()
	t.Cleanup(func() {
		_ = g.cmd.Process.Kill()
		<-g.over
		if t.Failed() {
			t.Logf("%s: %v\ntold %v\nstandard error: %s", g.name, g.cmd.ProcessState, g.Of("view"), g.err.String())
		}
	})
	return g
}

// until waits for what a process must report.
func (g *guest) until(t testing.TB, want string, told func() bool) {
	t.Helper()
	late := time.After(stage.PatienceTime)
	for {
		next := g.Next() // before the look, or it misses a line between the two
		if told() {
			return
		}
		select {
		case <-next:
		case <-g.over:
			if !told() { // its last line may be the one
				t.Fatalf("%s has ended without %s: %v", g.name, want, g.Of("end"))
			}
		case <-late:
			t.Fatalf("%s: not %s", g.name, want)
		}
	}
}

// signal sends a signal.
func (g *guest) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%s: %v: %v", g.name, s, err)
	}
}

// end waits until the process has ended by itself, and returns its last report.
func (g *guest) end(t testing.TB) stage.Line {
	t.Helper()
	select {
	case <-g.over:
	case <-time.After(stage.PatienceTime):
		_ = g.cmd.Process.Signal(syscall.SIGQUIT) // so that it prints what it waits for
		<-time.After(time.Second)
		t.Fatalf("%s hangs", g.name)
	}
	ends := g.Of("end")
	if len(ends) != 1 || !g.cmd.ProcessState.Success() { // it exits well, whatever it reports
		t.Fatalf("%s: %v: told %v", g.name, g.cmd.ProcessState, ends)
	}
	return ends[0]
}
