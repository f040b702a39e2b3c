package hosts

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/test/program"
)

// Jobs that srun starts on four nodes, without any variable of the user's. The tests judge them by
// their tasks' answers, by srun's exit code, and by what is left.

// srunFlags make srun and Slurm spare a job that loses a task or a node, whatever slurm.conf says.
// docs/running.md explains them.
var srunFlags = []string{"--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--output={steps}.%t"}

// powerOffCoordinator cuts the power of the coordinator's host.
func powerOffCoordinator(j *job, i int) error {
	p, err := j.coordinator()
	if err != nil {
		return err
	}
	return powerOff(func(int) int { return p.host })(j, i)
}

// srunCase is something that happens to a job of srun.
type srunCase struct {
	name  string
	lasts time.Duration
	harm  func(*job, int) error
	exit  int // of srun
	flags []string
}

func (c srunCase) run(t *testing.T, cluster *slurmCluster) {
	lasts := c.lasts
	if c.harm != nil {
		lasts = 0 // until the harm is done, which on a busy machine is late
	}
	j, err := cluster.srun(t.Context(), lasts, slices.Concat(srunFlags, c.flags))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(j.log())
		}
	}()
	err = j.awaitSteps(firstStep)
	if err == nil && c.harm != nil {
		if err = c.harm(j, 0); err == nil {
			time.Sleep(time.Until(j.began.Add(c.lasts)))
			err = os.WriteFile(j.steps+program.Enough, nil, 0o600)
		}
	}
	if err != nil {
		j.interrupt()
		t.Fatal(err)
	}
	err = j.await("end of all processes", c.lasts+time.Minute, func() bool { return len(j.of()) == 0 })
	ended := time.Now()
	<-j.over
	if err != nil && j.killed != "" {
		t.Error(err)
	}
	if j.killed != "" || j.cmd.ProcessState.ExitCode() != c.exit {
		t.Errorf("srun: %v %s; want exit code %d", j.cmd.ProcessState, j.killed, c.exit)
	}
	if n := j.right(); n != stepTasks {
		t.Errorf("%d of %d tasks were right", n, stepTasks)
	}
	t.Logf("stall %.2f s, the job took %.1f s, srun ended %.1f s later", longest(j.times()).Seconds(), ended.Sub(j.began).Seconds(), time.Since(ended).Seconds())
}

// leavesNothing reports what a cluster has left on the live hosts: processes, and directories of jobs.
func (c *slurmCluster) leavesNothing(t *testing.T) {
	t.Helper()
	for i, h := range c.Hosts {
		var left []string
		for deadline := time.Now().Add(leaveTime); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			left = nil
			for _, pid := range h.Processes() {
				if p, ok := inspect(pid, i, ""); ok && filepath.Base(p.args[0]) == "program" {
					left = append(left, strings.Join(p.args, " "))
				}
			}
			if out, err := c.output(i, exec.Command("ls", "-A", "/dev/shm")); err == nil {
				left = append(left, strings.Fields(out)...)
			}
			if left == nil {
				break
			}
		}
		if left != nil {
			t.Errorf("left on %s: %q", h.Name, left)
		}
	}
}

func TestSlurmTasksDie(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const s = time.Second
	for _, r := range []srunCase{
		{name: "nothing happens", lasts: 4 * s},
		{name: "one task killed", lasts: 6 * s, harm: killRank(func(int) int { return 5 }), exit: 137},
		{name: "rank 0 killed", lasts: 6 * s, harm: killRank(func(int) int { return 0 }), exit: 137},
		{name: "coordinator killed", lasts: 6 * s, harm: killCoordinator(1), exit: 137},
		{name: "coordinators killed, five in a row", lasts: 20 * s, harm: killCoordinator(5), exit: 137},
		{name: "nothing happens after that", lasts: 2 * s},
		{name: "with variables of PMI", lasts: 2 * s, flags: []string{"--mpi=pmi2"}},
		{name: "with PMIx", lasts: 2 * s, flags: []string{"--mpi=pmix"}},
		{name: "with PMIx, rank 0 killed", lasts: 6 * s, harm: killRank(func(int) int { return 0 }), exit: 137, flags: []string{"--mpi=pmix"}},
		{name: "more processes on one node than on others", lasts: 2 * s, flags: []string{"-N", "3", "-n", "7", "--ntasks-per-node", "3"}},
		{name: "one node", lasts: 2 * s, flags: []string{"-N", "1", "-n", "4", "--ntasks-per-node", "4"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			r.run(t, c)
			// If all processes of a host were killed, none could remove their directory; the next job
			// does.
			if !strings.Contains(r.name, "five") {
				c.leavesNothing(t)
			}
		})
	}
}

func TestSlurmNodesDie(t *testing.T) {
	const s = time.Second
	for _, r := range []srunCase{
		{name: "a node loses power", lasts: 12 * s, harm: powerOff(func(int) int { return 3 })},
		{name: "a node loses power, and is given up while the job runs", lasts: 40 * s, harm: powerOff(func(int) int { return 2 })},
		{name: "the coordinator's node loses power", lasts: 12 * s, harm: powerOffCoordinator},
		{name: "a node cut off for 10s", lasts: 18 * s, harm: cutOff(func(int) int { return 3 }, 10*s), exit: 1},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			r.run(t, c)
			c.leavesNothing(t)
		})
	}
}

// TestSlurmBadStarts: if a job cannot begin, every process soon prints one line that names the cause,
// and all end.
func TestSlurmBadStarts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, h := range c.Hosts {
		if err := h.Run(exec.Command("mkdir", "-m", "700", "/tmp/home")); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []struct {
		name   string
		before func() error
		env    []string
		want   string // in a line of each process
	}{
		{"the home directory is not shared", nil, []string{"HOME=/tmp/home"}, "turned away: it has another key, or is ending: EOF; if nodes do not share /tmp/home/.coppice/key (this is node"},
		{
			"others can read the key",
			func() error { return os.Chmod(filepath.Join(c.home(), ".coppice", "key"), 0o644) }, nil,
			"home/.coppice/key has mode 0644, so others than its owner can reach the key; allowed: 0600 or 0400 (chmod 600",
		},
		{"the port is no port", nil, []string{"COPPICE_PORT=x"}, `COPPICE_PORT="x"; allowed: an integer from 1 to 65535`},
		{"names do not resolve", c.forgetNames, []string{"HOME=/tmp/home"}, ", but that does not resolve on this node; allowed: names that do, or COPPICE_COORDINATOR=ADDRESS:PORT"},
	} {
		t.Run(r.name, func(t *testing.T) {
			if r.name == "others can read the key" { // it has to be there
				srunCase{lasts: time.Second}.run(t, c)
			}
			if r.before != nil {
				if err := r.before(); err != nil {
					t.Fatal(err)
				}
			}
			j, err := c.srun(t.Context(), time.Second, srunFlags, r.env...)
			if err != nil {
				t.Fatal(err)
			}
			<-j.over
			if j.killed != "" || j.cmd.ProcessState.ExitCode() != 1 || time.Since(j.began) > badStartMax {
				t.Errorf("srun: %v %s after %v; want exit code 1 within %v", j.cmd.ProcessState, j.killed, time.Since(j.began), badStartMax)
			}
			lines := 0
			for line := range strings.Lines(j.said()) {
				if strings.Contains(line, r.want) {
					lines++
				}
			}
			if lines != workHosts*perHost {
				t.Errorf("%d lines have %q, not one of each process:\n%s", lines, r.want, j.said())
			}
			t.Logf("after %.1f s: %s", time.Since(j.began).Seconds(), strings.SplitAfter(j.said(), "\n")[0])
			c.leavesNothing(t)
		})
	}
}

// badStartMax is how long a job may take that cannot begin: processes try useless seeds for 10 s.
const badStartMax = 20 * time.Second

// forgetNames removes the nodes' names from all hosts.
func (c *slurmCluster) forgetNames() error {
	for i := range c.Hosts {
		if err := os.WriteFile(filepath.Join(c.dir, "hosts."+fmt.Sprint(i)), []byte("127.0.0.1 localhost\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestSlurmUsedPort: where another program has the port of the first node, the others gather without
// it.
func TestSlurmUsedPort(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const port = "7777"
	var l net.Listener
	var err error
	c.Hosts[0].Do(func() { l, err = net.Listen("tcp", ":"+port) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	j, err := c.srun(t.Context(), 2*time.Second, srunFlags, "COPPICE_PORT="+port)
	if err != nil {
		t.Fatal(err)
	}
	<-j.over
	if n := j.right(); n != stepTasks || !j.cmd.ProcessState.Success() {
		t.Errorf("srun: %v; %d of %d tasks were right\n%s", j.cmd.ProcessState, n, stepTasks, j.said())
	}
	t.Logf("the job took %v", time.Since(j.began))
	c.leavesNothing(t)
}

// TestSlurmJobsEnd: jobs that cannot go on, or may not, end by themselves and leave nothing.
func TestSlurmJobsEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, r := range []struct {
		name string
		harm func(*job) error
		exit int    // of srun; -1: a signal has ended it
		want string // that it shows
	}{
		{"cancelled", func(*job) error {
			_, err := c.call("scancel", "--user", "root")
			return err
		}, 1, "terminated signal received"},
		{"srun killed", func(j *job) error { return j.cmd.Process.Kill() }, -1, ""},
		{"one process told to end", func(j *job) error { return signalAll(j.of(3), syscall.SIGTERM) }, 1, "terminated signal received"},
		{"two of four nodes cut from the others", func(*job) error { return c.Part([]int{0, 1}, []int{2, 3}) }, 1, "no quorum"},
		{"two of four nodes lose power", func(j *job) error {
			if err := c.Part([]int{0, 1, launcherHost}, []int{2}, []int{3}); err != nil {
				return err
			}
			c.Hosts[2].PowerOff()
			c.Hosts[3].PowerOff()
			return nil
		}, 1, "no quorum"},
	} {
		t.Run(r.name, func(t *testing.T) {
			j, err := c.srun(t.Context(), 30*time.Second, srunFlags)
			if err != nil {
				t.Fatal(err)
			}
			if err := j.awaitSteps(firstStep); err != nil {
				j.interrupt()
				t.Fatal(err)
			}
			began := time.Now()
			if err := r.harm(j); err != nil {
				t.Fatal(err)
			}
			gone := time.Duration(0)
			for ; gone < time.Minute && len(j.of()) > 0; gone = time.Since(began) {
				time.Sleep(20 * time.Millisecond)
			}
			<-j.over
			if j.killed != "" || j.cmd.ProcessState.ExitCode() != r.exit || !strings.Contains(j.said(), r.want) || gone > time.Minute {
				t.Errorf("srun: %v %s; want exit code %d and %q\n%s", j.cmd.ProcessState, j.killed, r.exit, r.want, j.said())
			}
			t.Logf("processes gone after %.1f s, srun after %.1f s: %v", gone.Seconds(), time.Since(began).Seconds(), j.cmd.ProcessState)
			if err := c.Heal(); err != nil {
				t.Error(err)
			}
			if r.exit >= 0 { // slurmstepd kills all when srun is gone: the next job removes what they leave
				c.leavesNothing(t)
			}
		})
	}
}

// TestSlurmProcessesHandOver: processes of a coppice.Main program that get SIGTERM hand their tasks
// over, and the others finish the job; if all get it, all end at once.
func TestSlurmProcessesHandOver(t *testing.T) {
	c := newCluster(t)
	for _, r := range []struct {
		name   string
		harm   func(*job) error
		exit   []int // one of them is srun's
		right  int
		within time.Duration // all processes are gone within it; 0: not checked
	}{
		{"one", func(j *job) error { return signalAll(j.of(3), syscall.SIGTERM) }, []int{143}, workHosts * perHost, 0},
		{"a node", func(j *job) error { return signalAll(slices.Concat(j.of(2), j.of(3)), syscall.SIGTERM) }, []int{143}, workHosts * perHost, 0},
		{"rank 0 and two others", func(j *job) error { return signalAll(slices.Concat(j.of(0), j.of(1), j.of(5)), syscall.SIGTERM) }, []int{143}, workHosts * perHost, 0},
		{"all", func(*job) error {
			_, err := c.call("scancel", "--user", "root")
			return err
		}, []int{1, 143}, 0, 10 * time.Second}, // some may have handed over before the others get it
	} {
		t.Run(r.name, func(t *testing.T) {
			j, err := c.srun(t.Context(), 5*time.Second, srunFlags, program.MainVariable+"=1", "COPPICE_GRACE=20s")
			if err != nil {
				t.Fatal(err)
			}
			if err := j.awaitSteps(firstStep); err != nil {
				j.interrupt()
				t.Fatal(err)
			}
			if err := r.harm(j); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err = j.await("end of all processes", time.Minute, func() bool { return len(j.of()) == 0 })
			gone := time.Since(began)
			<-j.over
			if err != nil && j.killed != "" {
				t.Error(err)
			}
			if j.killed != "" || !slices.Contains(r.exit, j.cmd.ProcessState.ExitCode()) || r.within > 0 && gone > r.within {
				t.Errorf("srun: %v %s, after %v; want exit code %v", j.cmd.ProcessState, j.killed, gone, r.exit)
			}
			if n := j.right(); n != r.right {
				t.Errorf("%d of %d tasks were right", n, r.right)
			}
			if t.Failed() {
				t.Log(j.log())
			}
			t.Logf("stall %.2f s, all gone after %.1f s", longest(j.times()).Seconds(), gone.Seconds())
		})
	}
}
