package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// slurmCluster is a Slurm of workHosts nodes: munged on every host, slurmctld on the launcher's, slurmd
// on the others. Slurm has other names for the hosts than they have themselves: node0 is host0.
type slurmCluster struct {
	*hostNetwork
	lab *lab
	dir string
}

// slurmCommands are the commands that a cluster needs besides those of a network.
var slurmCommands = []string{"munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "sinfo"}

// newCluster starts a cluster, or skips the test.
func newCluster(t *testing.T) *slurmCluster {
	t.Helper()
	l := openLab(t)
	if missing := missingCommands(slurmCommands...); missing != nil {
		t.Skipf("%s not installed: bash .ci/install-netns and bash .ci/install-slurm", strings.Join(missing, ", "))
	}
	if os.Getuid() != 0 {
		t.Skip("slurmd needs to be started by root: run this as root")
	}
	c := &slurmCluster{lab: l, dir: l.path("slurm")}
	var err error
	c.hostNetwork, err = newHostNetwork(workHosts+1, "/dev/shm", "/tmp", "/run")
	if errors.Is(err, errNoRight) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.start(); err != nil {
		t.Fatalf("%v\n%s", err, c.logs())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.logs())
		}
	})
	return c
}

// start writes the settings and starts the daemons.
func (c *slurmCluster) start() error {
	for _, dir := range []string{c.dir, c.home(), filepath.Join(c.dir, "state")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"munge.key":  strings.Repeat("not a secret. ", 8),
		"slurm.conf": c.settings(),
		"nsswitch":   "passwd: files\ngroup: files\nhosts: files\n", // there is no name server
	} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for i, h := range c.Hosts {
		if err := c.prepare(i, h); err != nil {
			return err
		}
		if err := c.daemon(i, "munged", "--foreground", "--force", "--num-threads=2", "--key-file="+filepath.Join(c.dir, "munge.key"),
			"--socket=/run/munge.sock", "--pid-file=/run/munged.pid", "--log-file=/run/munged.log", "--seed-file=/run/munged.seed"); err != nil {
			return err
		}
	}
	for _, h := range c.Hosts {
		if err := h.Run(exec.Command("sh", "-c", "for i in $(seq 200); do test -S /run/munge.sock && exit; sleep 0.05; done; exit 1")); err != nil {
			return err
		}
	}
	if err := c.daemon(launcherHost, "slurmctld", "-D", "-i", "-f", filepath.Join(c.dir, "slurm.conf")); err != nil {
		return err
	}
	if err := awaitPort(c.Hosts[launcherHost], addressOf(launcherHost)+":6817"); err != nil {
		return err
	}
	for i := range workHosts {
		if err := c.daemon(i, "slurmd", "-D", "-f", filepath.Join(c.dir, "slurm.conf"), "-N", nodeName(i)); err != nil {
			return err
		}
	}
	return c.awaitIdle(time.Minute)
}

// prepare makes a host resolve names by files.
func (c *slurmCluster) prepare(i int, h *host) error {
	file := filepath.Join(c.dir, "hosts."+fmt.Sprint(i))
	if err := os.WriteFile(file, []byte(c.names(i)), 0o600); err != nil {
		return err
	}
	return h.Run(exec.Command("sh", "-c", fmt.Sprintf("mount --bind %s /etc/hosts && mount --bind %s /etc/nsswitch.conf && mkdir -m 755 /run/slurmd",
		file, filepath.Join(c.dir, "nsswitch"))))
}

// awaitIdle waits until all nodes are up and idle.
func (c *slurmCluster) awaitIdle(limit time.Duration) error {
	var states string
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		out, err := c.call("sinfo", "-h", "-N", "-p", "low", "-o", "%t")
		if states = strings.Join(strings.Fields(out), " "); err == nil && states == strings.TrimSuffix(strings.Repeat("idle ", workHosts), " ") {
			return nil
		}
	}
	return fmt.Errorf("nodes are %q after %v; want all idle", states, limit)
}

// home is the user's home directory, which all nodes share.
func (c *slurmCluster) home() string { return c.lab.path("home") }

// nodeName returns Slurm's name of a host.
func nodeName(host int) string { return fmt.Sprintf("node%d", host) }

// names returns /etc/hosts of a host. It maps the host's own names to a loopback address, as Debian
// does.
func (c *slurmCluster) names(own int) string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n")
	for i, h := range c.Hosts {
		address := addressOf(i)
		if i == own {
			address = "127.0.1.1"
		}
		fmt.Fprintf(&b, "%s %s %s\n", address, h.Name, nodeName(i))
	}
	return b.String()
}

func (c *slurmCluster) settings() string {
	lines := []string{
		"ClusterName=coppice",
		fmt.Sprintf("SlurmctldHost=%s(%s)", c.Hosts[launcherHost].Name, addressOf(launcherHost)),
		"SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge", "CredType=cred/munge",
		"AuthInfo=socket=/run/munge.sock,cred_expire=10", // a requeued job waits that long
		"StateSaveLocation=" + filepath.Join(c.dir, "state"), "SlurmdSpoolDir=/run/slurmd",
		"SlurmctldPidFile=/run/slurmctld.pid", "SlurmdPidFile=/run/slurmd.pid",
		"ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres", "SchedulerType=sched/backfill",
		"SlurmdParameters=config_overrides", "MpiDefault=none", "AccountingStorageType=accounting_storage/none", "JobAcctGatherType=jobacct_gather/none",
		"ReturnToService=2", "SlurmdTimeout=10", "InactiveLimit=0", "KillWait=5", "JobRequeue=1", "SwitchType=switch/none",
		// On a busy machine, Slurm's scheduler would otherwise let queued jobs wait for long.
		"SchedulerParameters=sched_interval=1,sched_min_interval=0,requeue_delay=1",
		"PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE",
	}
	for i := range workHosts {
		lines = append(lines, fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=%s CPUs=4 State=UNKNOWN", nodeName(i), c.Hosts[i].Name, addressOf(i)))
	}
	lines = append(
		lines, "PartitionName=low Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=5",
		"PartitionName=high Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF", "",
	)
	return strings.Join(lines, "\n")
}

// command returns one of Slurm's commands, for a host.
func (c *slurmCluster) command(name string, args ...string) *exec.Cmd {
	path, err := exec.LookPath(name)
	if err != nil {
		path = filepath.Join("/usr/sbin", name)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"PATH=" + c.lab.searchPath(), "HOME=" + c.home(), "SLURM_CONF=" + filepath.Join(c.dir, "slurm.conf")}
	cmd.Dir = c.home()
	return cmd
}

// daemon starts a daemon that ends with its host.
func (c *slurmCluster) daemon(host int, name string, args ...string) error {
	cmd := c.command(name, args...)
	log, err := os.Create(filepath.Join(c.dir, fmt.Sprintf("%s.%d.log", name, host)))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := c.Hosts[host].Start(cmd); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// call runs one of Slurm's commands on the launcher's host to its end.
func (c *slurmCluster) call(name string, args ...string) (string, error) {
	return c.output(launcherHost, c.command(name, args...))
}

// output runs a command on a host to its end, and returns what it wrote.
func (c *slurmCluster) output(host int, cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := c.Hosts[host].Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(out.String()))
	}
	return out.String(), err
}

// logs returns the end of what the daemons wrote.
func (c *slurmCluster) logs() string {
	var b strings.Builder
	names, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
	for _, name := range names {
		content, _ := os.ReadFile(name)
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(name), strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return b.String()
}

// srun starts the program of steps on all nodes, with srun on the launcher's host.
func (c *slurmCluster) srun(ctx context.Context, lasts time.Duration, flags []string, env ...string) (*job, error) {
	j, err := c.lab.newJob(ctx, c.hostNetwork)
	if err != nil {
		return nil, err
	}
	words := append([]string{"-N", fmt.Sprint(workHosts), "-n", fmt.Sprint(workHosts * perHost), "--ntasks-per-node", fmt.Sprint(perHost)}, flags...)
	words = append(words, stepsProgram(lasts, stepTasks)...)
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "{steps}", j.steps)
	}
	j.cmd = c.command("srun", words...)
	j.cmd.Env = append(j.cmd.Env, env...)
	j.cmd.Stdout, j.cmd.Stderr = &j.err, &j.err
	return j, j.begin(2*lasts + 3*time.Minute)
}
