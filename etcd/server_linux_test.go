package etcd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/test/port"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// server is an etcd on loopback.
type server struct {
	t       *testing.T
	dir     string
	flags   []string
	scheme  string
	clients []string // HOST:PORT
	peers   []string
	running []*exec.Cmd
}

// binary is where etcd is.
func binary(t *testing.T) string {
	if path, err := exec.LookPath("etcd"); err == nil {
		return path
	}
	if cache, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
		path := filepath.Join(strings.TrimSpace(string(cache)), "..", "coppice-etcd", "etcd")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skip("SKIPPED: jobs that meet through etcd, which need an etcd; to install it: bash .ci/install-etcd")
	return ""
}

// startServer starts an etcd of three members and waits until it answers.
func startServer(t *testing.T) *server {
	s := prepareServer(t, 3)
	s.startAll()
	s.await(s.client(t, nil))
	return s
}

// prepareServer chooses the ports of an etcd that is not started.
func prepareServer(t *testing.T, members int, flags ...string) *server {
	binary(t)
	s := &server{t: t, dir: t.TempDir(), flags: flags, scheme: "http", running: make([]*exec.Cmd, members)}
	for range members {
		s.clients, s.peers = append(s.clients, port.Free(t)), append(s.peers, port.Free(t))
	}
	t.Cleanup(func() {
		for i := range s.running {
			s.kill(i)
		}
	})
	return s
}

func (s *server) startAll() {
	for i := range s.running {
		s.start(i)
	}
}

// start starts a member, with what it has stored.
func (s *server) start(i int) {
	s.t.Helper()
	var cluster []string
	for j, p := range s.peers {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", j, p))
	}
	client := s.scheme + "://" + s.clients[i]
	args := append([]string{
		"--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(s.dir, fmt.Sprint(i)), "--logger", "zap",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", "http://" + s.peers[i], "--initial-advertise-peer-urls", "http://" + s.peers[i],
		"--initial-cluster", strings.Join(cluster, ","),
		"--heartbeat-interval", "100", "--election-timeout", "1500",
	}, s.flags...)
	cmd := exec.Command(binary(s.t), args...)
	log, err := os.OpenFile(filepath.Join(s.dir, fmt.Sprintf("%d.log", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.running[i] = cmd
}

// kill kills a member, if it runs.
func (s *server) kill(i int) {
	if cmd := s.running[i]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
		s.running[i] = nil
	}
}

// client is one of the test's own.
func (s *server) client(t *testing.T, change func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	for _, c := range s.clients {
		cfg.Endpoints = append(cfg.Endpoints, s.scheme+"://"+c)
	}
	if change != nil {
		change(&cfg)
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// await waits until etcd answers.
func (s *server) await(c *clientv3.Client) {
	s.t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < time.Minute; {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err = c.Get(ctx, "/coppice")
		cancel()
		if err == nil {
			return
		}
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, "0.log"))
	s.t.Fatalf("etcd does not answer: %v\n%s", err, log[max(0, len(log)-2000):])
}

// url returns the value of COPPICE_RENDEZVOUS for a job.
func (s *server) url(job string) string { return "etcd://" + strings.Join(s.clients, ",") + "/" + job }

// job is one that meets through an etcd.
type job struct {
	t      *testing.T
	url    string
	size   int
	apart  bool // each process on a host of its own, a mount namespace
	env    []string
	dir    string
	key    string
	procs  []*process
	doomed map[*process]bool
}

// process is one of a job.
type process struct {
	cmd      *exec.Cmd
	out, err *output
	done     chan struct{}
	ended    error
}

// output can be read while it is written.
type output struct {
	name string
}

func (o *output) String() string {
	b, _ := os.ReadFile(o.name)
	return string(b)
}

// newJob is a job of which no process runs. Its lease is short.
func newJob(t *testing.T, s *server, name string, size int, apart bool, env ...string) *job {
	if apart && os.Getuid() != 0 {
		t.Skip("SKIPPED: processes on hosts of their own, which need the right to make mount namespaces: run this test as root")
	}
	return &job{
		t: t, url: s.url(name), size: size, apart: apart, dir: t.TempDir(), key: "a key of " + t.Name() + name,
		env: append([]string{varLease + "=3s", "COPPICE_JOIN_TIMEOUT=30s"}, env...), doomed: map[*process]bool{},
	}
}

// start starts so many processes.
func (j *job) start(n int, env ...string) {
	for range n {
		j.startOne(env...)
	}
}

func (j *job) startOne(env ...string) *process {
	j.t.Helper()
	i := len(j.procs)
	p := &process{cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	jobs := ""
	if !j.apart && i > 0 { // those of one host share it
		jobs = j.procs[0].jobsDir()
	} else {
		made, err := os.MkdirTemp("/dev/shm", "coppice-etcd-test")
		if err != nil {
			j.t.Fatal(err)
		}
		j.t.Cleanup(func() { os.RemoveAll(made) })
		jobs = made
	}
	p.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + j.dir, "COPPICE_JOBS_DIR=" + jobs, endVariable + "=" + j.endFile(),
		"COPPICE_RENDEZVOUS=" + j.url, "COPPICE_SIZE=" + fmt.Sprint(j.size), "COPPICE_KEY=" + j.key,
	}, append(j.env, env...)...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if j.apart {
		p.cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	p.out, p.err = &output{filepath.Join(j.dir, fmt.Sprint(i, ".out"))}, &output{filepath.Join(j.dir, fmt.Sprint(i, ".err"))}
	out, err := os.Create(p.out.name)
	if err != nil {
		j.t.Fatal(err)
	}
	defer out.Close()
	errs, err := os.Create(p.err.name)
	if err != nil {
		j.t.Fatal(err)
	}
	defer errs.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, errs
	if err := p.cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	go func() {
		p.ended = p.cmd.Wait()
		close(p.done)
	}()
	j.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	j.procs = append(j.procs, p)
	return p
}

func (p *process) jobsDir() string {
	for _, v := range p.cmd.Env {
		if dir, ok := strings.CutPrefix(v, "COPPICE_JOBS_DIR="); ok {
			return dir
		}
	}
	return ""
}

// kill kills a process, which need not end well.
func (j *job) kill(p *process) {
	j.doomed[p] = true
	_ = p.cmd.Process.Kill()
	<-p.done
}

// awaitStep waits until the job has come so far.
func (j *job) awaitStep(step int) {
	j.t.Helper()
	want := fmt.Sprintf("step %d\n", step)
	j.awaitUntil(want, func() bool {
		for _, p := range j.procs {
			if strings.Contains(p.out.String(), want) {
				return true
			}
		}
		return false
	})
}

// latest is the last step that the job has told of.
func (j *job) latest() (last int) {
	for _, p := range j.procs {
		for line := range strings.Lines(p.out.String()) {
			var step int
			if n, _ := fmt.Sscanf(line, "step %d", &step); n == 1 {
				last = max(last, step)
			}
		}
	}
	return last
}

// awaitUntil waits for something that must happen within a minute, while no process ends that should not.
func (j *job) awaitUntil(what string, happened func() bool) {
	j.t.Helper()
	for began := time.Now(); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			j.fail("not within a minute: " + what)
		}
		for _, p := range j.procs {
			select {
			case <-p.done:
				if !j.doomed[p] && p.ended != nil && !happened() {
					j.fail(fmt.Sprintf("a process has ended (%v) before: %s", p.ended, what))
				}
			default:
			}
		}
	}
}

// fail tells all that processes have said.
func (j *job) fail(what string) {
	j.t.Helper()
	var b bytes.Buffer
	for i, p := range j.procs {
		text := p.err.String()
		out := p.out.String()
		fmt.Fprintf(&b, "process %d (doomed: %v):\n%s…%s\n", i, j.doomed[p], text[max(0, len(text)-12000):], out[max(0, len(out)-100):])
	}
	j.t.Fatalf("%s\n%s", what, b.String())
}

// endFile ends the job.
func (j *job) endFile() string { return filepath.Join(j.dir, "end") }

// finish ends the job and waits until all processes that were not killed have ended well, every task with the right result.
func (j *job) finish() {
	j.t.Helper()
	if err := os.WriteFile(j.endFile(), nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
	j.awaitUntil("the end", func() bool {
		for _, p := range j.procs {
			select {
			case <-p.done:
			default:
				return false
			}
		}
		return true
	})
	right := map[string]bool{}
	for _, p := range j.procs {
		if p.ended != nil && !j.doomed[p] {
			j.fail(fmt.Sprint("a process has ended badly: ", p.ended))
		}
		for line := range strings.Lines(p.out.String()) {
			if strings.HasPrefix(line, "right: ") {
				right[line] = true
			}
		}
	}
	if len(right) != j.size {
		j.fail(fmt.Sprintf("%d of %d tasks are right", len(right), j.size))
	}
}

// ranks are those that the processes have got, in the order of their start.
func (j *job) ranks() (ranks []string) {
	for _, p := range j.procs {
		_, after, _ := strings.Cut(p.err.String(), `msg="control: registered"`)
		_, after, _ = strings.Cut(after, " rank=")
		rank, _, _ := strings.Cut(after, " ")
		ranks = append(ranks, rank)
	}
	return ranks
}
