package hosts

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/test/program"
)

// across is a job of eight processes on four hosts, and what happens to it.
type across struct {
	lasts time.Duration // about how long, if nothing happens
	harm  func(j *job, i int) error
	// may are sets of ranks, one of which may be evicted, in run i; with must, all of that set has to
	// be.
	may   func(i int) [][]int
	must  bool
	stall time.Duration // the longest allowed time between two steps; 0: it is only recorded
	hogs  int           // processes that compute beside it, for each processor

	byHand   bool // there is no launcher
	etcd     bool // there are no seeds either: processes meet through etcd
	detached bool // the launcher has gone
}

// silence is the jobs' silence.
const silence = 3 * time.Second

// firstStep is the earliest step at which something happens to a job.
const firstStep = 25

// run runs the job for the i-th time.
func (a across) run(ctx context.Context, l *lab, i int) (o outcome) {
	n, err := l.newNetwork()
	if err != nil {
		return failed(err)
	}
	defer n.Close()
	stop, err := startHogs(a.hogs * runtime.NumCPU())
	if err != nil {
		return failed(err)
	}
	defer stop()
	start := l.startAcross
	if a.byHand {
		start = l.startByHand
	}
	if a.etcd {
		start = l.startThroughEtcd
	}
	if a.detached {
		start = l.startDetached
	}
	j, err := start(ctx, n, a.lasts)
	if err != nil {
		return failed(err)
	}
	defer func() {
		o.log = j.log()
		if j.atEnd != nil {
			j.atEnd()
		}
	}()
	o.add(j.awaitSteps(firstStep + i*7%20)) // not always at the same moment
	if len(o.problems) == 0 && a.harm != nil {
		err := a.harm(j, i)
		o.late = errors.Is(err, errLate)
		o.add(err)
	}
	if len(o.problems) > 0 { // the job did not get to the row's situation
		j.interrupt()
	}
	r, err := j.end()
	o.add(err)
	o.stall = longest(j.times())
	o.extra = map[string]float64{"job s": time.Since(j.began).Seconds()}
	if j.cut > 0 {
		o.extra["cut s"] = j.cut.Seconds()
	}
	if r != nil {
		o.judge(j, r, stepTasks)
		o.judgeEvicted(r.evicted(), a.may(i), a.must)
	}
	if a.stall > 0 && o.stall > a.stall {
		o.slow = append(o.slow, fmt.Sprintf("stall of %.1f s, more than %v", o.stall.Seconds(), a.stall))
	}
	o.add(n.Heal())
	if a.detached {
		o.add(j.forget())
	}
	o.add(j.isGone())
	return o
}

// startAcross starts the program of steps on all hosts.
func (l *lab) startAcross(ctx context.Context, n *hostNetwork, lasts time.Duration) (*job, error) {
	var hosts []string
	for i := range workHosts {
		hosts = append(hosts, fmt.Sprintf("host%d:%d", i, perHost))
	}
	words := []string{"--hosts", strings.Join(hosts, ","), "--silence", silence.String(), "--"}
	return l.start(ctx, n, 2*lasts+4*time.Minute, append(words, stepsProgram(lasts, stepTasks)...)...)
}

// programWord as the first argument makes this command a process of a job: the next arguments name one
// of the programs, with its arguments.
const programWord = "program"

// stepTasks is the number of tasks of the program of steps.
const stepTasks = 12

// stepsProgram returns the call of the program of steps.
func stepsProgram(lasts time.Duration, tasks int) []string {
	return []string{"program", programWord, "steps", fmt.Sprint(int(lasts / program.Period)), fmt.Sprint(tasks), "{steps}"}
}

// leaveTime is how long a job's processes may remain after its launcher has ended and all hosts reach
// each other.
const leaveTime = 15 * time.Second

// sessionTime is how long sessions of sshd may remain: after a cut TCP sends what is left once more only after a pause that is
// about as long as the cut was.
const sessionTime = time.Minute

// isGone waits until nothing of a job that has ended remains.
func (j *job) isGone() error {
	return errors.Join(j.leavesNothing(leaveTime, process.ours), j.leavesNothing(sessionTime, func(process) bool { return true }))
}

// leavesNothing waits until no such process of the job remains.
func (j *job) leavesNothing(limit time.Duration, which func(process) bool) error {
	var left []process
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		left = slices.DeleteFunc(j.processes(), func(p process) bool { return !which(p) })
		if len(left) == 0 {
			return nil
		}
	}
	var names []string
	for _, p := range left {
		names = append(names, fmt.Sprintf("%s on host %d", filepath.Base(strings.TrimSpace(strings.Join(p.args[:min(2, len(p.args))], " "))), p.host))
	}
	return fmt.Errorf("left after %v: %s", limit, strings.Join(names, ", "))
}

// ranksOf returns the ranks on a host.
func ranksOf(host int) (ranks []int) {
	for i := range perHost {
		ranks = append(ranks, host*perHost+i)
	}
	return ranks
}

// victim returns the host that something happens to in run i, and other the second host involved: every
// host has its turn, and so have all pairs.
func victim(i int) int { return i % workHosts }
func other(i int) int  { return (victim(i) + 1 + i/workHosts%(workHosts-1)) % workHosts }

// The sets of processes that may be evicted.
func nobody(int) [][]int          { return [][]int{nil} }
func theVictim(i int) [][]int     { return [][]int{ranksOf(victim(i))} }
func oneOfTheTwo(i int) [][]int   { return [][]int{ranksOf(victim(i)), ranksOf(other(i))} }
func rankZero(int) [][]int        { return [][]int{{0}} }
func oneProcess(i int) int        { return 1 + i%(workHosts*perHost-1) }
func theOneProcess(i int) [][]int { return [][]int{{oneProcess(i)}} }

// cutOff cuts a host off for some time.
func cutOff(which func(i int) int, d time.Duration) func(*job, int) error {
	return func(j *job, i int) error {
		began := time.Now()
		if err := j.network.CutOff(which(i)); err != nil {
			return err
		}
		if err := j.sleep(d); err != nil {
			return err
		}
		err := j.network.Heal()
		lasted := time.Since(began)
		j.cut = max(j.cut, lasted)
		if d < silence && lasted >= silence {
			return fmt.Errorf("%w: the network was cut for %.1f s, not %v", errLate, lasted.Seconds(), d)
		}
		return err
	}
}

func theLauncher(int) int { return launcherHost }

// cutPair cuts the way from the victim to the other, or both ways between them, for some time.
func cutPair(both bool, d time.Duration) func(*job, int) error {
	return func(j *job, i int) error {
		ways := []way{{From: victim(i), To: other(i)}}
		if both {
			ways = append(ways, way{From: other(i), To: victim(i)})
		}
		if err := j.network.Cut(ways...); err != nil {
			return err
		}
		if err := j.sleep(d); err != nil {
			return err
		}
		return j.network.Heal()
	}
}

// flap alternately cuts the victim off and heals the cut.
func flap(period, d time.Duration) func(*job, int) error {
	return func(j *job, i int) error {
		for end := time.Now().Add(d); time.Now().Before(end); {
			if err := cutOff(victim, period)(j, i); err != nil {
				return err
			}
			if err := j.sleep(period); err != nil {
				return err
			}
		}
		return nil
	}
}

// slowDown lets all processes of the victim run for a tenth of the time, for a while.
func slowDown(d time.Duration) func(*job, int) error {
	return func(j *job, i int) error {
		f, err := newFreezer(filepath.Base(j.lab.dir) + "-" + filepath.Base(filepath.Dir(j.steps)))
		if err != nil {
			return err
		}
		host := j.network.Hosts[victim(i)]
		j.atEnd = func() {
			host.PowerOff()
			f.remove()
		}
		if err := f.take(host.Processes()); err != nil {
			return err
		}
		return f.slow(j.ctx, d)
	}
}

// killRank kills one process.
func killRank(which func(i int) int) func(*job, int) error {
	return func(j *job, i int) error { return signalAll(j.of(which(i)), syscall.SIGKILL) }
}

// killHost kills all of Coppice's processes on the victim: those of the program and the agent.
func killHost(j *job, i int) error {
	var pids []int
	for _, p := range j.processes() {
		if p.host == victim(i) && p.ours() {
			pids = append(pids, p.pid)
		}
	}
	return signalAll(pids, syscall.SIGKILL)
}

// powerOff cuts the power of a host: it sends nothing more.
func powerOff(which func(i int) int) func(*job, int) error {
	return func(j *job, i int) error {
		if err := j.network.CutOff(which(i)); err != nil {
			return err
		}
		j.network.Hosts[which(i)].PowerOff()
		return nil
	}
}

// goneTime is how long agents and processes may remain after their launcher is gone.
const goneTime = 30 * time.Second

// launcherGone is a job whose launcher is gone in the middle: its agents and processes must end, too.
func launcherGone(harm func(*job, int) error) func(context.Context, *lab, int) outcome {
	return func(ctx context.Context, l *lab, i int) (o outcome) {
		n, err := l.newNetwork()
		if err != nil {
			return failed(err)
		}
		defer n.Close()
		j, err := l.startAcross(ctx, n, time.Minute)
		if err != nil {
			return failed(err)
		}
		defer func() { o.log = j.log() }()
		o.add(j.awaitSteps(firstStep + i*7%20))
		o.add(harm(j, i))
		began := time.Now()
		o.add(j.leavesNothing(goneTime, process.ours))
		o.extra = map[string]float64{"gone s": time.Since(began).Seconds()}
		o.right = true // nothing could be wrong
		return o
	}
}

// killLauncher kills the launcher alone.
func killLauncher(j *job, _ int) error { return j.cmd.Process.Kill() }

// startHogs starts processes that only compute.
func startHogs(count int) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, h := range all {
			_ = h.Process.Kill()
			_ = h.Wait()
		}
	}
	for range count {
		h := exec.Command("sh", "-c", "while :; do :; done")
		if err := startHere(h); err != nil {
			stop()
			return nil, err
		}
		all = append(all, h)
	}
	return stop, nil
}
