package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-go/coppice/test/machine"
)

// row is a line of the table: something that happens to jobs.
type row struct {
	name   string
	alone  bool          // it loads the machine, or is measured: nothing runs beside it
	hosts  bool          // it needs hosts that can be cut off
	etcd   bool          // it needs etcd
	memory int64         // bytes that it needs
	sample bool          // continuous integration runs it
	takes  time.Duration // about how long
	run    func(ctx context.Context, l *lab, i int) outcome
}

// outcome is the result of one run.
type outcome struct {
	right    bool // exit code and answer
	healthy  int  // processes that were evicted for no reason
	stall    time.Duration
	machine  time.Duration      // how long it stood still, at most
	extra    map[string]float64 // other figures
	problems []string           // what must not happen, on any machine
	slow     []string           // figures beyond their bounds
	late     bool               // the machine was too busy to do what the row says
	skipped  error              // why it was not run
	log      string
}

func failed(err error) outcome { return outcome{problems: []string{err.Error()}} }

func (o *outcome) add(err error) {
	if err != nil {
		o.problems = append(o.problems, err.Error())
	}
}

func (o *outcome) addf(format string, args ...any) { o.add(fmt.Errorf(format, args...)) }

// judge judges the exit code and the tasks' answers.
func (o *outcome) judge(j *job, r *report, tasks int) {
	if r.Exit != 0 {
		o.addf("exit %d: %s", r.Exit, r.Cause)
	}
	if n := j.right(); n != tasks {
		o.addf("%d of %d tasks were right", n, tasks)
	}
	o.right = r.Exit == 0 && j.right() == tasks
}

// judgeEvicted judges the evicted ranks: a part of one of the sets or, with must, all of it.
func (o *outcome) judgeEvicted(evicted []int, may [][]int, must bool) {
	o.healthy = len(evicted)
	var spared int
	for _, set := range may {
		beyond := 0
		for _, rank := range evicted {
			if !slices.Contains(set, rank) {
				beyond++
			}
		}
		if beyond <= o.healthy {
			o.healthy, spared = beyond, len(set)-(len(evicted)-beyond)
		}
	}
	if o.healthy > 0 {
		o.addf("evicted %v, of whom %d were healthy", evicted, o.healthy)
	}
	if must && spared > 0 {
		o.addf("evicted only %v, not all of %v", evicted, may)
	}
}

// errMemory is returned if a row needs more memory than there is.
var errMemory = errors.New("not enough memory")

// try runs a row once, if that is possible.
func (r row) try(ctx context.Context, l *lab, i int) outcome {
	switch {
	case r.hosts && l.noSSH != nil:
		return outcome{skipped: l.noSSH}
	case r.etcd && l.etcd() != nil:
		return outcome{skipped: l.etcd()}
	case memoryAvailable() < r.memory:
		return outcome{skipped: fmt.Errorf("%w: %d GiB available, %d GiB needed", errMemory, memoryAvailable()>>30, r.memory>>30)}
	}
	for again := 0; ; again++ {
		still := machine.Watch()
		o := r.run(ctx, l, i)
		o.machine = still().Most
		if !o.late || again == againMax {
			if again > 0 {
				o.extra["repeated"] = float64(again)
			}
			return o
		}
	}
}

// errLate is returned by a run in which something lasted longer than the row says: its outcome is
// meaningless. The row runs again, at most againMax times.
var errLate = errors.New("on a busy machine")

const againMax = 5

func rows() (all []row) {
	const s = time.Second
	add := func(name string, a across) {
		all = append(all, row{name: name, hosts: true, alone: a.hogs > 0, takes: a.lasts + 3*s, run: a.run})
	}
	// The program goes on for longer than it takes to notice a crash.
	for _, d := range []time.Duration{s / 2, s, 2 * s, 2900 * time.Millisecond} {
		add(fmt.Sprintf("launcher's host cut off for %v", d), across{lasts: d + 8*s, harm: cutOff(theLauncher, d), may: nobody})
	}
	for _, d := range []time.Duration{1600 * time.Millisecond, 2 * s, 2900 * time.Millisecond} {
		add(fmt.Sprintf("one host cut off for %v", d), across{lasts: d + 8*s, harm: cutOff(victim, d), may: nobody})
	}
	for _, d := range []time.Duration{5 * s, 20 * s} {
		add(fmt.Sprintf("one host cut off for %v", d), across{lasts: d + 6*s, harm: cutOff(victim, d), may: theVictim, must: true, stall: 4 * s})
	}
	add("two hosts cut from each other, one way, for 20s", across{lasts: 26 * s, harm: cutPair(false, 20*s), may: oneOfTheTwo, stall: 5 * s})
	add("two hosts cut from each other, both ways, for 20s", across{lasts: 26 * s, harm: cutPair(true, 20*s), may: oneOfTheTwo, stall: 5 * s})
	add("one host's link flapping every 500ms for 12s", across{lasts: 20 * s, harm: flap(s/2, 12*s), may: nobody})
	add("one host at a tenth of its speed for 12s", across{lasts: 8 * s, harm: slowDown(12 * s), may: nobody})
	add("two processes that compute for each processor", across{lasts: 12 * s, hogs: 2, may: nobody})
	add("one process killed", across{lasts: 8 * s, harm: killRank(oneProcess), may: theOneProcess, must: true, stall: 2 * s})
	add("process of rank 0 killed", across{lasts: 8 * s, harm: killRank(func(int) int { return 0 }), may: rankZero, must: true, stall: 2 * s})
	add("one host's processes and agent killed", across{lasts: 10 * s, harm: killHost, may: theVictim, must: true, stall: 4 * s})
	add("one host loses power", across{lasts: 12 * s, harm: powerOff(victim), may: theVictim, must: true, stall: 4 * s})
	all = append(all,
		row{name: "launcher's host loses power", hosts: true, takes: 20 * s, run: launcherGone(powerOff(theLauncher))},
		row{name: "launcher killed", hosts: true, takes: 6 * s, run: launcherGone(killLauncher)})
	all = append(all, byHandRows()...)
	all = append(all, etcdRows()...)
	all = append(all, detachedRows()...)
	all = append(all, oneHostRows()...)
	for _, name := range sampled {
		all[slices.IndexFunc(all, func(r row) bool { return r.name == name })].sample = true
	}
	return all
}

// sampled are the rows that continuous integration runs.
var sampled = []string{
	"launcher's host cut off for 2s", "one host cut off for 2s", "one host cut off for 5s", "one process killed",
	"one host loses power", "launcher killed", "by hand: five coordinators killed, one after the other", "by hand: the coordinator's host loses power",
	"etcd: two of four hosts cut from the others",
	"detached: launcher killed when it has given its orders", "detached: one agent killed", "detached: launcher's host cut off for 10s",
}

// log returns what the job wrote, for those who look for the cause of a failure.
func (j *job) log() string {
	<-j.over
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s", strings.Join(j.cmd.Args, " "), j.said(), j.out.String())
	return b.String()
}

// interrupt ends a job that is no longer needed.
func (j *job) interrupt() { j.kill() }
