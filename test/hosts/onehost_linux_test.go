package hosts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Rows on one host, without namespaces: every user can run them.

// oneHostRows returns rows with stopped processes, large values and large jobs.
func oneHostRows() (all []row) {
	const s = time.Second
	for _, r := range []struct {
		name string
		here
	}{
		{"-n 1, stopped for 10s", here{processes: 1, harm: stopFor(10 * s)}},
		{"-n 3, all stopped for 10s", here{processes: 3, harm: stopFor(10 * s)}},
		{"-n 2, one killed, the other stopped for 10s", here{processes: 2, harm: killThenStop(10 * s), evicted: []int{1}}},
		{"-n 4, two stopped before they join, one killed", here{
			processes: 4, tasks: 4, flags: []string{"--join-timeout", "5s", "--silence", "1s", "--kill", "3@500ms"},
			before: `case $RANK in 1|2) kill -STOP $$;; esac; `, evicted: []int{1, 2, 3},
		}},
	} {
		all = append(all, row{name: r.name, takes: 25 * s, run: r.run})
	}
	for _, b := range []struct{ processes, mebibytes int }{{2, 1536}, {3, 1536}, {2, 2560}, {3, 2560}, {1, 3072}} {
		all = append(all, row{
			name: fmt.Sprintf("-n %d, broadcast of %.1f GiB", b.processes, float64(b.mebibytes)/1024), alone: true,
			memory: 12 << 30, takes: 30 * s, run: large(b.processes, b.mebibytes),
		})
	}
	return append(all,
		row{name: "-n 512, idle and a barrier", alone: true, memory: 8 << 30, takes: 60 * s, run: many(512, 4)},
		row{name: "-n 1000, idle and a barrier", alone: true, memory: 12 << 30, takes: 90 * s, run: many(1000, 8)},
		row{name: "-n 256, idle", alone: true, memory: 4 << 30, takes: 45 * s, run: idleCost},
		row{name: "256 processes on four hosts, a barrier", alone: true, hosts: true, memory: 8 << 30, takes: 30 * s, run: manyAcross},
	)
}

// here is the program of steps on this host, and what happens to its processes.
type here struct {
	processes int
	tasks     int // 0: as across hosts
	flags     []string
	before    string // what the shell that becomes a process does first
	harm      func(*job) error
	evicted   []int // exactly these must be evicted
}

// hereLasts is how long the program takes if nothing happens.
const hereLasts = 8 * time.Second

func (h here) run(ctx context.Context, l *lab, _ int) (o outcome) {
	words := slices.Concat([]string{"-n", fmt.Sprint(h.processes)}, h.flags, []string{"--"})
	tasks := cmp.Or(h.tasks, stepTasks)
	program := stepsProgram(hereLasts, tasks)
	if h.before != "" {
		program = []string{"sh", "-c", h.before + "exec " + strings.Join(program, " ")}
	}
	j, err := l.start(ctx, nil, time.Minute, append(words, program...)...)
	if err != nil {
		return failed(err)
	}
	defer func() { o.log = j.log() }()
	if h.harm != nil {
		o.add(j.awaitSteps(firstStep))
		if len(o.problems) == 0 {
			o.add(h.harm(j))
		}
	}
	o.finish(j, tasks, h.evicted)
	return o
}

// finish waits for the end of a job on this host, in which exactly these ranks must be evicted.
func (o *outcome) finish(j *job, tasks int, evicted []int) {
	r, err := j.end()
	o.add(err)
	o.stall = longest(j.times())
	if r != nil {
		o.judge(j, r, tasks)
		o.judgeEvicted(r.evicted(), [][]int{evicted}, true)
	}
	o.add(j.isGone())
}

// stopFor stops all processes of the program for some time.
func stopFor(d time.Duration) func(*job) error {
	return func(j *job) error {
		pids := j.of()
		if err := signalAll(pids, syscall.SIGSTOP); err != nil {
			return err
		}
		if err := j.sleep(d); err != nil {
			return err
		}
		_ = signalAll(pids, syscall.SIGCONT) // the report lists processes killed meanwhile
		return nil
	}
}

// killThenStop kills the process of rank 1 and, when the others have gone on for a while, stops these
// for some time.
func killThenStop(d time.Duration) func(*job) error {
	return func(j *job) error {
		if err := signalAll(j.of(1), syscall.SIGKILL); err != nil {
			return err
		}
		if err := j.awaitSteps(3 * firstStep); err != nil {
			return err
		}
		return stopFor(d)(j)
	}
}

// large is a job that broadcasts a large value; meanwhile no process may be suspected.
func large(processes, mebibytes int) func(context.Context, *lab, int) outcome {
	return func(ctx context.Context, l *lab, _ int) (o outcome) {
		j, err := l.start(ctx, nil, 2*time.Minute, "-n", fmt.Sprint(processes), "--", "program", programWord, "broadcast", fmt.Sprint(mebibytes))
		if err != nil {
			return failed(err)
		}
		defer func() { o.log = j.log() }()
		o.finish(j, processes, nil)
		if n := strings.Count(j.err.String(), "suspect"); n > 0 {
			o.addf("%d lines of suspicion", n)
		}
		o.extra = map[string]float64{"job s": time.Since(j.began).Seconds()}
		return o
	}
}

// idleJob starts a job that does nothing for some seconds after its first barrier, and waits for that
// barrier. It returns how long the start took.
func (l *lab) idleJob(ctx context.Context, processes, seconds int) (*job, time.Duration, error) {
	return l.idleJobOn(ctx, nil, seconds, "-n", fmt.Sprint(processes))
}

// idleJobOn does the same with these arguments of coppice run.
func (l *lab) idleJobOn(ctx context.Context, n *hostNetwork, seconds int, words ...string) (*job, time.Duration, error) {
	const limit = 2 * time.Minute
	words = append(words, "--", "program", programWord, "idle", fmt.Sprint(seconds), "{steps}")
	j, err := l.start(ctx, n, limit+time.Duration(seconds)*time.Second, words...)
	if err != nil {
		return nil, 0, err
	}
	if err := j.await("barrier", limit, func() bool { return len(j.times()) > 0 }); err != nil {
		j.kill()
		return j, 0, err
	}
	return j, j.times()[0].Sub(j.began), nil
}

// manyStart is the number of processes whose start the start of many is compared with; manyPrivate is
// how many private bytes a process may have.
const (
	manyStart   = 128
	manyPrivate = 8e6
)

// many is a job of many processes, whose start may take at most this many times as long as that of
// manyStart.
func many(processes int, times float64) func(context.Context, *lab, int) outcome {
	return func(ctx context.Context, l *lab, _ int) (o outcome) {
		few, base, err := l.idleJob(ctx, manyStart, 1)
		if few != nil {
			<-few.over
		}
		if err != nil {
			return failed(err)
		}
		j, start, err := l.idleJob(ctx, processes, 15)
		if j == nil {
			return failed(err)
		}
		defer func() { o.log = j.log() }()
		o.add(err)
		o.extra = map[string]float64{fmt.Sprintf("start of %d s", manyStart): base.Seconds()}
		if err == nil {
			_ = j.sleep(5 * time.Second) // what the start needed is given back
			pids := j.of()
			if len(pids) != processes {
				o.addf("%d of %d processes are there", len(pids), processes)
			}
			var most int64
			for _, pid := range pids {
				most = max(most, privateMemory(pid))
			}
			ratio := start.Seconds() / base.Seconds()
			o.extra["start s"], o.extra["ratio"], o.extra["private MB"] = start.Seconds(), ratio, float64(most)/1e6
			if ratio > times {
				o.slow = append(o.slow, fmt.Sprintf("start of %.1f s, %.1f times that of %d", start.Seconds(), ratio, manyStart))
			}
			if most > manyPrivate {
				o.slow = append(o.slow, fmt.Sprintf("a process has %.1f MB for itself", float64(most)/1e6))
			}
		}
		o.finish(j, processes, nil)
		return o
	}
}

// manyAcross is a job of 256 processes on four hosts, whose start may take at most twice as long as
// that of as many on one.
func manyAcross(ctx context.Context, l *lab, _ int) (o outcome) {
	const processes, times = 256, 2
	here, base, err := l.idleJob(ctx, processes, 1)
	if here != nil {
		<-here.over
	}
	if err != nil {
		return failed(err)
	}
	n, err := l.newNetwork()
	if err != nil {
		return failed(err)
	}
	defer n.Close()
	var hosts []string
	for i := range workHosts {
		hosts = append(hosts, fmt.Sprintf("host%d:%d", i, processes/workHosts))
	}
	j, start, err := l.idleJobOn(ctx, n, 1, "--hosts", strings.Join(hosts, ","))
	if j == nil {
		return failed(err)
	}
	defer func() { o.log = j.log() }()
	o.add(err)
	ratio := start.Seconds() / base.Seconds()
	o.extra = map[string]float64{"one host s": base.Seconds(), "start s": start.Seconds(), "ratio": ratio}
	if ratio > times {
		o.slow = append(o.slow, fmt.Sprintf("start of %.1f s, %.1f times that on one host", start.Seconds(), ratio))
	}
	o.finish(j, processes, nil)
	return o
}

// idleCost is a job of 256 processes that do nothing. Together with the launcher they may take 3% of a
// processor.
func idleCost(ctx context.Context, l *lab, _ int) (o outcome) {
	const percentMax, watched = 3, 20 * time.Second
	j, _, err := l.idleJob(ctx, 256, 30)
	if j == nil {
		return failed(err)
	}
	defer func() { o.log = j.log() }()
	o.add(err)
	if err == nil {
		_ = j.sleep(5 * time.Second) // the start is over
		all := j.processes()
		began, before := time.Now(), spent(all)
		_ = j.sleep(watched)
		percent := 100 * (spent(all) - before).Seconds() / time.Since(began).Seconds()
		o.extra = map[string]float64{"% of a processor": percent}
		if percent > percentMax {
			o.slow = append(o.slow, fmt.Sprintf("%.1f%% of a processor, more than %d%%", percent, percentMax))
		}
	}
	o.finish(j, 256, nil)
	return o
}

// spent returns how long processes have computed, together.
func spent(all []process) (sum time.Duration) {
	for _, p := range all {
		sum += processorTime(p.pid)
	}
	return sum
}
