package hosts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/test/program"
)

// job is one run of coppice run.
type job struct {
	ctx     context.Context
	lab     *lab
	network *hostNetwork // nil: all on this host
	token   string       // in the environment of its processes, if they are on this host
	steps   string       // the file of the program's steps
	began   time.Time
	cmd     *exec.Cmd
	out     bytes.Buffer
	err     lockedBuffer
	over    chan struct{}
	cut     time.Duration // how long the network was cut, at most: on a busy machine it heals late
	atEnd   func()        // called at the end of the run; nil: nothing to do
	killed  string        // why it was killed: it did not end, or took all memory
	hands   []hand        // its processes, if it was started by hand
	id      string        // of a detached job
	from    int           // the host from which the test attaches to such a job
	home    string        // the home directory of the user who attaches
}

// patience is how long a job may take beyond its own time-out.
const patience = 20 * time.Second

// report is the part of coppice run --json that the rows judge.
type report struct {
	Exit   int
	Cause  string
	Killed []int
	Tasks  []struct {
		Rank   int
		Exit   int
		Signal string
		Heirs  []int
	}
}

// evicted returns the ranks whose processes did not end by themselves, and well.
func (r *report) evicted() []int {
	all := slices.Clone(r.Killed)
	for _, t := range r.Tasks {
		if t.Exit != 0 || t.Signal != "" || len(t.Heirs) > 0 {
			all = append(all, t.Rank)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// newJob makes the directory of a job.
func (l *lab) newJob(ctx context.Context, n *hostNetwork) (*job, error) {
	dir, err := os.MkdirTemp(l.dir, "job-")
	if err != nil {
		return nil, err
	}
	return &job{from: launcherHost, home: dir, ctx: ctx, lab: l, network: n, token: "COPPICE_HOSTS_JOB=" + dir, steps: filepath.Join(dir, "steps"), over: make(chan struct{})}, nil
}

// start starts a job, on the launcher's host or, without a network, on this one. {steps} in an argument
// stands for the file of steps.
func (l *lab) start(ctx context.Context, n *hostNetwork, timeout time.Duration, args ...string) (*job, error) {
	j, err := l.newJob(ctx, n)
	if err != nil {
		return nil, err
	}
	words := []string{"run", "--json", "-v", "--timeout", timeout.String()}
	for _, a := range args {
		words = append(words, strings.ReplaceAll(a, "{steps}", j.steps))
	}
	j.cmd = exec.Command(l.path("bin", "coppice"), words...)
	j.cmd.Stdout, j.cmd.Stderr = &j.out, &j.err
	j.cmd.Env = []string{"PATH=" + l.searchPath(), "HOME=" + filepath.Dir(j.steps), j.token}
	return j, j.begin(timeout + patience)
}

// begin starts the launcher, and checks that it ends within a limit.
func (j *job) begin(limit time.Duration) (err error) {
	j.began = time.Now()
	if j.network != nil {
		err = j.network.Hosts[j.from].Start(j.cmd)
	} else {
		err = startHere(j.cmd)
	}
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = j.cmd.Wait() // the report says more
	}()
	go func() {
		defer close(j.over)
		if j.killed = j.watch(ended, limit); j.killed != "" {
			j.kill()
			<-ended
		}
	}()
	return nil
}

// watch waits for the end of the launcher, or returns why it must be killed.
func (j *job) watch(ended <-chan struct{}, limit time.Duration) string {
	late := time.After(limit)
	for {
		select {
		case <-ended:
			return ""
		case <-j.ctx.Done():
			return "interrupted"
		case <-late:
			return fmt.Sprintf("the launcher did not end within %v", limit)
		case <-time.After(200 * time.Millisecond):
			if free := memoryAvailable(); free < memoryKept {
				return fmt.Sprintf("killed, since it had left %d MiB of memory", free>>20)
			}
		}
	}
}

// kill kills the launcher and, on this host, the processes.
func (j *job) kill() {
	if j.cmd != nil {
		_ = j.cmd.Process.Kill()
	}
	if j.id != "" {
		_ = signalAll(j.of(), syscall.SIGKILL)
	}
	for _, h := range j.hands {
		_ = h.cmd.Process.Kill()
	}
	if j.network == nil {
		for _, p := range j.processes() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// process is one of the job: of its program, an agent, or a session of sshd.
type process struct {
	pid  int
	host int // -1: this one
	args []string
	rank int // of a process of the program, otherwise -1
}

// ours reports whether it belongs to Coppice: a process of the program, or an agent.
func (p process) ours() bool { return p.rank >= 0 || filepath.Base(p.args[0]) == "coppice" }

// processes returns all running processes of the job.
func (j *job) processes() (all []process) {
	if j.network == nil {
		for _, pid := range numbers("/proc") {
			if p, ok := inspect(pid, -1, j.token); ok {
				all = append(all, p)
			}
		}
		return all
	}
	for i, h := range j.network.Hosts {
		for _, pid := range h.Processes() {
			// The sshd that listens belongs to the host, not to the job; so does an etcd.
			if p, ok := inspect(pid, i, ""); ok && !strings.Contains(p.args[0], "[listener]") && filepath.Base(p.args[0]) != "etcd" {
				all = append(all, p)
			}
		}
	}
	return all
}

// inspect reads what a process is; if variable is not empty, the process must have it.
func inspect(pid, host int, variable string) (process, bool) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	words, err := os.ReadFile(dir + "cmdline")
	if err != nil || len(words) == 0 { // gone, or a zombie
		return process{}, false
	}
	p := process{pid: pid, host: host, args: strings.Split(string(words), "\x00"), rank: -1}
	environ, _ := os.ReadFile(dir + "environ")
	vars := strings.Split(string(environ), "\x00")
	if variable != "" && !slices.Contains(vars, variable) {
		return process{}, false
	}
	for _, v := range vars {
		name, text, _ := strings.Cut(v, "=")
		if (name == "COPPICE_RANK" || name == "SLURM_PROCID") && filepath.Base(p.args[0]) == "program" {
			p.rank, _ = strconv.Atoi(text)
		}
	}
	return p, true
}

// numbers returns the entries of a directory that are numbers.
func numbers(dir string) (all []int) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// of returns the processes of the program with one of these ranks; without any, all.
func (j *job) of(ranks ...int) (pids []int) {
	for _, p := range j.processes() {
		if p.rank >= 0 && (len(ranks) == 0 || slices.Contains(ranks, p.rank)) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// startHere starts a command that ends with this process, however this one ends.
func startHere(cmd *exec.Cmd) (err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	onLastingThread(func() { err = cmd.Start() })
	return err
}

// signalAll sends a signal to processes.
func signalAll(pids []int, s syscall.Signal) error {
	if len(pids) == 0 {
		return fmt.Errorf("nobody to send %v to", s)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil {
			return fmt.Errorf("%v to %d: %w", s, pid, err)
		}
	}
	return nil
}

// times returns the times of the steps that task 0 has noted: the first time of each.
func (j *job) times() (all []time.Time) {
	content, _ := os.ReadFile(j.steps)
	for line := range strings.Lines(string(content)) {
		var step int
		var at int64
		if _, err := fmt.Sscan(line, &step, &at); err == nil && step == len(all) {
			all = append(all, time.Unix(0, at))
		}
	}
	return all
}

// longest returns the longest time between two successive times.
func longest(times []time.Time) (most time.Duration) {
	for i := 1; i < len(times); i++ {
		most = max(most, times[i].Sub(times[i-1]))
	}
	return most
}

// awaitSteps waits until task 0 has done count steps.
func (j *job) awaitSteps(count int) error {
	return j.await(fmt.Sprintf("step %d", count), time.Minute, func() bool { return len(j.times()) >= count })
}

// await waits for what must happen while the job runs.
func (j *job) await(what string, limit time.Duration, happened func() bool) error {
	late := time.After(limit)
	for !happened() {
		select {
		case <-late:
			return fmt.Errorf("no %s within %v", what, limit)
		case <-j.over:
			return fmt.Errorf("the job has ended before %s: %s", what, j.lastLine())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// sleep waits, unless the run is interrupted.
func (j *job) sleep(d time.Duration) error {
	select {
	case <-j.ctx.Done():
		return context.Cause(j.ctx)
	case <-time.After(d):
		return nil
	}
}

// lastLine returns the last line that the launcher printed.
func (j *job) lastLine() string {
	lines := strings.Split(strings.TrimSpace(j.err.String()), "\n")
	return lines[len(lines)-1]
}

// end waits for the end of the job and returns its report.
func (j *job) end() (*report, error) {
	if j.id != "" && j.cmd == nil {
		if err := j.attach(); err != nil {
			return nil, err
		}
	}
	<-j.over
	if j.killed != "" {
		return nil, errors.New(j.killed)
	}
	if j.hands != nil {
		return j.handReport(), nil
	}
	r := &report{}
	if err := json.Unmarshal(j.out.Bytes(), r); err != nil {
		return nil, fmt.Errorf("no report: %w: %s", err, j.lastLine())
	}
	return r, nil
}

// right counts the tasks that printed that all their values were right.
func (j *job) right() int {
	said := map[string]bool{}
	for line := range strings.Lines(j.said()) {
		if _, rank, ok := strings.Cut(line, program.Right); ok {
			said[strings.TrimSpace(rank)] = true
		}
	}
	return len(said)
}

// said returns what the job and its processes wrote to stderr, and what srun let processes write to
// files: srun loses output that is on its way when the last process ends, if one was killed.
func (j *job) said() string {
	said := j.err.String()
	files, _ := filepath.Glob(j.steps + ".*")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		said += string(b)
	}
	return said
}
