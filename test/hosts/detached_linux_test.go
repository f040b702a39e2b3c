package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// startDetached starts the program of steps on all hosts with coppice run --detach. Its launcher gives
// its orders, never hears that an agent has carried them out, and is killed when all processes run.
func (l *lab) startDetached(ctx context.Context, n *hostNetwork, lasts time.Duration) (*job, error) {
	j, err := l.newJob(ctx, n)
	if err != nil {
		return nil, err
	}
	j.began = time.Now()
	var hosts []string
	for i := range workHosts {
		hosts = append(hosts, fmt.Sprintf("host%d:%d", i, perHost))
	}
	args := stepsProgram(lasts, stepTasks)
	args[len(args)-1] = j.steps
	launcher := j.coppice(append([]string{"run", "--detach", "--silence", silence.String(), "--hosts", strings.Join(hosts, ","), "--"}, args...)...)
	launcher.Env = append(launcher.Env, "PATH="+l.path("deaf")+":"+l.searchPath())
	launcher.Stderr = &j.err
	if err := n.Hosts[launcherHost].Start(launcher); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- launcher.Wait() }()
	err = j.await("processes", time.Minute, func() bool { return len(j.of()) == workHosts*perHost || len(ended) > 0 })
	_ = launcher.Process.Kill()
	<-ended
	if err == nil && launcher.ProcessState.Exited() {
		err = errors.New("the launcher ended without being killed")
	}
	if err == nil {
		j.id, err = j.onlyID()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, j.err.String())
	}
	return j, nil
}

// coppice returns a call of the command by the user who started the job.
func (j *job) coppice(args ...string) *exec.Cmd {
	cmd := exec.Command(j.lab.path("bin", "coppice"), args...)
	cmd.Env = []string{"PATH=" + j.lab.searchPath(), "HOME=" + j.home, j.token}
	return cmd
}

// onlyID returns the id of the only detached job.
func (j *job) onlyID() (string, error) {
	entries, err := os.ReadDir(filepath.Join(filepath.Dir(j.steps), ".coppice", "jobs"))
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("%d detached jobs, want 1", len(entries))
	}
	return entries[0].Name(), nil
}

// attach begins to follow a detached job to its end.
func (j *job) attach() error {
	j.cmd = j.coppice("attach", "--json", j.id)
	j.cmd.Stdout, j.cmd.Stderr = &j.out, &j.err
	return j.begin(3 * time.Minute)
}

// forget removes everything that hosts keep of a detached job, and checks that nothing is left there.
func (j *job) forget() error {
	remove := j.coppice("jobs", "--remove", j.id)
	if err := j.network.Hosts[j.from].Run(remove); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(j.steps), ".coppice", "jobs", j.id)); j.from == launcherHost && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("something is left of job %s: %w", j.id, err)
	}
	const list = `ls -d /dev/shm/coppice-* /tmp/coppice-* "$HOME"/.coppice/jobs/* 2>/dev/null || true`
	for _, h := range j.network.Hosts[:workHosts] {
		if syscall.Kill(h.init.Process.Pid, 0) != nil || len(h.Processes()) == 0 { // it has lost power
			continue
		}
		var out strings.Builder
		look := exec.Command("sh", "-c", list)
		look.Stdout = &out
		if err := h.Start(look); err != nil {
			return err
		}
		if err := look.Wait(); err != nil || out.Len() > 0 {
			return fmt.Errorf("%s: left: %s (%w)", h.Name, out.String(), err)
		}
	}
	return nil
}

// attached does a harm while a client is attached.
func attached(harm func(*job, int) error) func(*job, int) error {
	return func(j *job, i int) error {
		if err := j.attach(); err != nil {
			return err
		}
		if err := j.await("connections", 20*time.Second, func() bool { return len(j.followers()) == workHosts }); err != nil {
			return err
		}
		return harm(j, i)
	}
}

// followers returns the agents that pass the keepers' output to the attached client.
func (j *job) followers() (pids []int) {
	for _, p := range j.processes() {
		if filepath.Base(p.args[0]) == "coppice" && p.host < workHosts && slices.Contains(p.args, "agent") && !slices.Contains(p.args, "--keep") {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// killAttached kills the attached client; the next one continues from there.
func killAttached(j *job, _ int) error {
	_ = j.cmd.Process.Kill()
	<-j.over
	j.cmd, j.over = nil, make(chan struct{})
	return nil
}

// killKeeper kills the agent of the victim.
func killKeeper(j *job, i int) error { return signalAll(j.keepers(victim(i)), syscall.SIGKILL) }

// keepers returns the agents of a host that keep processes.
func (j *job) keepers(host int) (pids []int) {
	for _, pid := range j.network.Hosts[host].Processes() {
		if p, ok := inspect(pid, host, ""); ok && slices.Contains(p.args, "--keep") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// launcherLost cuts the power of the launcher's host: the next client attaches on a host of the job,
// which has a home directory of its own.
func launcherLost(j *job, i int) error {
	who, err := user.Current()
	if err != nil {
		return err
	}
	j.from, j.home = victim(i), who.HomeDir
	return powerOff(theLauncher)(j, i)
}

// detachedRows returns the rows of jobs that outlive their launcher.
func detachedRows() (all []row) {
	const s = time.Second
	add := func(name string, a across) {
		a.detached = true
		all = append(all, row{name: "detached: " + name, hosts: true, takes: a.lasts + 3*s, run: a.run})
	}
	first := func(int) int { return 0 }
	add("launcher killed when it has given its orders", across{lasts: 6 * s, may: nobody})
	add("who is attached killed", across{lasts: 8 * s, harm: attached(killAttached), may: nobody})
	add("one agent killed", across{lasts: 10 * s, harm: killKeeper, may: theVictim, must: true, stall: 5 * s})
	add("one process killed", across{lasts: 8 * s, harm: killRank(oneProcess), may: theOneProcess, must: true, stall: 4 * s})
	add("process of rank 0 killed", across{lasts: 8 * s, harm: killRank(first), may: rankZero, must: true, stall: 4 * s})
	add("five coordinators killed, one after the other", across{lasts: 30 * s, harm: killCoordinator(5), may: func(int) [][]int { return [][]int{{0, 1, 2, 3, 4}} }, must: true, stall: 6 * s})
	add("one host loses power", across{lasts: 12 * s, harm: powerOff(victim), may: theVictim, must: true, stall: 5 * s})
	add("one host loses power while somebody is attached", across{lasts: 12 * s, harm: attached(powerOff(victim)), may: theVictim, must: true, stall: 5 * s})
	add("launcher's host loses power", across{lasts: 8 * s, harm: launcherLost, may: nobody})
	for _, d := range []time.Duration{2 * s, 10 * s, 60 * s} {
		add(fmt.Sprintf("launcher's host cut off for %v", d), across{lasts: 8*s + d, harm: attached(cutOff(theLauncher, d)), may: nobody})
	}
	add("one host cut off for 10s", across{lasts: 18 * s, harm: cutOff(victim, 10*s), may: theVictim, must: true, stall: 5 * s})
	return append(all, row{name: "detached: SIGTERM to who is attached", hosts: true, takes: 8 * s, run: endAttached})
}

// endAttached is a job that a signal to the attached client ends.
func endAttached(ctx context.Context, l *lab, i int) (o outcome) {
	n, err := l.newNetwork()
	if err != nil {
		return failed(err)
	}
	defer n.Close()
	j, err := l.startDetached(ctx, n, time.Minute)
	if err != nil {
		return failed(err)
	}
	o.add(j.awaitSteps(firstStep + i*7%20))
	o.add(attached(func(j *job, _ int) error { return j.cmd.Process.Signal(syscall.SIGTERM) })(j, i))
	if len(o.problems) > 0 {
		j.interrupt()
	}
	<-j.over
	if state := j.cmd.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() || state.Signal() != syscall.SIGTERM {
		o.addf("who was attached ended with %v, not by SIGTERM", j.cmd.ProcessState)
	}
	if left := j.of(); len(left) > 0 {
		o.addf("%d processes left", len(left))
	}
	o.add(j.forget())
	o.add(j.isGone())
	o.right, o.log = len(o.problems) == 0, j.log()
	return o
}
