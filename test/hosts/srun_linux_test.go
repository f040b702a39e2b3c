package hosts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Jobs that srun starts on four nodes, without any variable of the user's. What becomes of one is judged by the answers of its
// tasks, by srun's exit code, and by what is left.

// srunFlags have srun and Slurm leave a job alone that loses a task or a node, whatever slurm.conf says. docs/running.md explains them.
var srunFlags = []string{"--no-kill", "--kill-on-bad-exit=0", "--wait=0"}

// coordinator is the process that has the coordinator: it holds the lock of the job's directory on its host.
func (j *job) coordinator() (process, error) {
	for _, p := range j.processes() {
		if p.rank < 0 {
			continue
		}
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
		for _, f := range files {
			if name, err := os.Readlink(f); err == nil && strings.HasSuffix(name, "/control.lock") {
				return p, nil
			}
		}
	}
	return process{}, errors.New("no process has the coordinator")
}

// killCoordinator kills the process that has the coordinator, so many times, each time when the job has gone on.
func killCoordinator(times int) func(*job, int) error {
	return func(j *job, _ int) error {
		var dead []int
		for len(dead) < times {
			var p process
			err := j.await("coordinator", time.Minute, func() bool {
				var err error
				p, err = j.coordinator()
				return err == nil && !slices.Contains(dead, p.rank)
			})
			if err == nil {
				err = signalAll([]int{p.pid}, syscall.SIGKILL)
			}
			if err == nil {
				dead = append(dead, p.rank)
				err = j.awaitSteps(len(j.times()) + 15)
			}
			if err != nil {
				return fmt.Errorf("coordinators killed: ranks %v: %w", dead, err)
			}
		}
		return nil
	}
}

// powerOffCoordinator has the host of the coordinator lose its power.
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
}

func (c srunCase) run(t *testing.T, cluster *slurmCluster) {
	j, err := cluster.srun(t.Context(), c.lasts, srunFlags)
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
		err = c.harm(j, 0)
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

// leavesNothing reports what a cluster has left on the hosts that are there: processes, and directories of jobs.
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
	c := newCluster(t)
	const s = time.Second
	for _, r := range []srunCase{
		{name: "nothing happens", lasts: 4 * s},
		{name: "one task killed", lasts: 6 * s, harm: killRank(func(int) int { return 5 }), exit: 137},
		{name: "rank 0 killed", lasts: 6 * s, harm: killRank(func(int) int { return 0 }), exit: 137},
		{name: "coordinator killed", lasts: 6 * s, harm: killCoordinator(1), exit: 137},
		{name: "coordinators killed, five in a row", lasts: 20 * s, harm: killCoordinator(5), exit: 137},
		{name: "nothing happens after that", lasts: 2 * s},
	} {
		t.Run(r.name, func(t *testing.T) {
			r.run(t, c)
			// Where all processes of a host were killed, nobody was there to remove their directory; the next job does.
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
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			r.run(t, c)
			c.leavesNothing(t)
		})
	}
}
