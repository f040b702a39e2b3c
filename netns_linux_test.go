package coppice_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// network is a few hosts behind a router, each with a network and mounts of its
// own: Linux namespaces without names, which go when the process that holds them
// does. Any two hosts can be cut from each other.
type network struct {
	router *host
	hosts  []*host
	cuts   map[[2]int]bool // pairs of hosts, the lower first
}

// host is a process that does nothing, and its namespaces.
type host struct {
	cmd *exec.Cmd
	dir string // for the directories of jobs; "": there are none, on the router
}

// netnsVariable has tests make network namespaces.
const netnsVariable = "COPPICE_NETNS"

// newNetwork makes a network that lasts as long as the test, or skips it.
func newNetwork(t *testing.T, hosts int) *network {
	t.Helper()
	if os.Getenv(netnsVariable) == "" {
		t.Skipf("hosts that can be cut off need network namespaces: set %s=1 and be root, or see step integration of .ci/run", netnsVariable)
	}
	needs(t, "ip", ".ci/install-netns installs it, with the package iproute2")
	needs(t, "nsenter", ".ci/install-netns installs it, with the package util-linux")
	n := &network{router: newHost(t), cuts: map[[2]int]bool{}}
	var wires strings.Builder
	for i := range hosts {
		h := newHost(t)
		var err error
		if h.dir, err = os.MkdirTemp("", "n"); err != nil { // short: for the paths of sockets
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(h.dir) })
		n.hosts = append(n.hosts, h)
		fmt.Fprintf(&wires, "link add h%d type veth peer name net0 netns %d\n", i, h.cmd.Process.Pid)
		fmt.Fprintf(&wires, "address add %s/24 dev h%d\nlink set h%d up\n", address(i, 1), i, i)
	}
	n.router.ip(t, "link set lo up\n"+wires.String())
	for i, h := range n.hosts {
		h.ip(t, fmt.Sprintf("link set lo up\naddress add %s/24 dev net0\nlink set net0 up\nroute add default via %s\n", address(i, 2), address(i, 1)))
	}
	if out, err := n.router.command("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward").CombinedOutput(); err != nil {
		t.Fatalf("no forwarding: %v: %s", err, out)
	}
	return n
}

// address is one in the network of a host: 1 is the router's, 2 the host's own.
// These networks are for tests between networks (RFC 2544).
func address(host, number int) string { return fmt.Sprintf("198.18.%d.%d", host, number) }

// newHost starts the process; it ends with the test, however that ends.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{cmd: exec.Command("cat")}
	in, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startForLife(h.cmd, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS); errors.Is(err, syscall.EPERM) {
		t.Skip("no right to make network namespaces: be root, or run the test under unshare --user --map-root-user")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	})
	return h
}

// command is one to run on the host; nsenter becomes it, so it has its pid.
func (h *host) command(program string, args ...string) *exec.Cmd {
	pid := strconv.Itoa(h.cmd.Process.Pid)
	return exec.Command("nsenter", append([]string{"--target", pid, "--net", "--mount", program}, args...)...)
}

// ip carries out commands of ip on the host, one a line.
func (h *host) ip(t testing.TB, lines string) {
	t.Helper()
	cmd := h.command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(lines)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ip: %v: %s\n%s", err, out, lines)
	}
}

// enter runs f on a thread that is in the host's network: the sockets that f opens
// stay there. So does the thread, for good: it may not be allowed back, and if it
// ended, so would the processes that it has started.
func (h *host) enter(f func() error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread()
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", h.cmd.Process.Pid))
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		if err == nil {
			err = f()
		}
		ended <- err
		select {}
	}()
	return <-ended
}

// onThread runs f on a thread that lasts as long as this process: what it starts is
// not killed by the end of a thread.
func onThread(f func()) {
	done := make(chan struct{})
	lastingThread() <- func() {
		defer close(done)
		f()
	}
	<-done
}

var lastingThread = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})

// startForLife starts a command that is killed when this process ends, however it does.
func startForLife(cmd *exec.Cmd, flags uintptr) (err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	onThread(func() { err = cmd.Start() })
	return err
}

// part cuts the hosts into sides that cannot reach each other. What is sent across
// is lost, and nobody says so. Hosts that no side names reach all.
func (n *network) part(t testing.TB, sides ...[]int) {
	t.Helper()
	want := map[[2]int]bool{}
	for i, side := range sides {
		for _, other := range sides[i+1:] {
			for _, a := range side {
				for _, b := range other {
					want[[2]int{min(a, b), max(a, b)}] = true
				}
			}
		}
	}
	var rules strings.Builder
	change := func(what string, pairs, but map[[2]int]bool) {
		for pair := range pairs {
			if !but[pair] {
				for _, way := range [][2]int{pair, {pair[1], pair[0]}} {
					fmt.Fprintf(&rules, "rule %s from %s to %s blackhole\n", what, address(way[0], 2), address(way[1], 2))
				}
			}
		}
	}
	change("add", want, n.cuts)
	change("del", n.cuts, want)
	n.router.ip(t, rules.String())
	n.cuts = want
}

// heal lets all hosts reach each other.
func (n *network) heal(t testing.TB) { n.part(t) }

// guest is a process on a host of the network.
type guest struct {
	script
	name string
	cmd  *exec.Cmd
	err  lockedBuffer
	over chan struct{}
}

// lockedBuffer is a buffer that may be read while it is written.
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
func (h *host) play(t testing.TB, name string, s scene, env ...string) *guest {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{name: name, cmd: h.command(self), over: make(chan struct{})}
	g.cmd.Env = slices.Concat(os.Environ(), s.env(), []string{"COPPICE_JOBS_DIR=" + h.dir}, env)
	g.cmd.Stdout, g.cmd.Stderr = &g.script, &g.err
	if err := startForLife(g.cmd, 0); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(g.over)
		_ = g.cmd.Wait() // what it has told says more
	}()
	t.Cleanup(func() {
		_ = g.cmd.Process.Kill()
		<-g.over
		if t.Failed() {
			t.Logf("%s: %v\ntold %v\nstandard error: %s", g.name, g.cmd.ProcessState, g.of("view"), g.err.String())
		}
	})
	return g
}

// until waits for what a process is to tell.
func (g *guest) until(t testing.TB, want string, told func() bool) {
	t.Helper()
	late := time.After(patienceTime)
	for {
		next := g.next() // before the look, or a line between the two is missed
		if told() {
			return
		}
		select {
		case <-next:
		case <-g.over:
			if !told() { // its last words may be the ones
				t.Fatalf("%s has ended without %s: %v", g.name, want, g.of("end"))
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

// end waits until the process has ended by itself, and returns what it said last.
func (g *guest) end(t testing.TB) line {
	t.Helper()
	select {
	case <-g.over:
	case <-time.After(patienceTime):
		_ = g.cmd.Process.Signal(syscall.SIGQUIT) // so that it says what it waits for
		<-time.After(time.Second)
		t.Fatalf("%s hangs", g.name)
	}
	ends := g.of("end")
	if len(ends) != 1 || !g.cmd.ProcessState.Success() { // it exits well, whatever it tells
		t.Fatalf("%s: %v: told %v", g.name, g.cmd.ProcessState, ends)
	}
	return ends[0]
}
