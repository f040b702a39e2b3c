package hosts

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/test/program"
)

// hand is a process of a job started by hand: without a launcher, with a seed on each of the first
// three hosts.
type hand struct {
	rank int
	cmd  *exec.Cmd
}

// handSeeds is the number of hosts with a seed.
const handSeeds = 3

// startByHand starts the program of steps on all hosts, without a launcher.
func (l *lab) startByHand(ctx context.Context, n *hostNetwork, lasts time.Duration) (*job, error) {
	var seeds []string
	for i := range handSeeds {
		seeds = append(seeds, addressOf(i)+":7070")
	}
	return l.startHands(ctx, n, lasts, stepsProgram(lasts, stepTasks), "COPPICE_COORDINATOR="+strings.Join(seeds, ","))
}

// startHands starts a program on all hosts, without a launcher. env tells its processes how to find
// each other.
func (l *lab) startHands(ctx context.Context, n *hostNetwork, lasts time.Duration, args []string, env ...string) (*job, error) {
	j, err := l.newJob(ctx, n)
	if err != nil {
		return nil, err
	}
	j.began = time.Now()
	dir := filepath.Dir(j.steps)
	args[len(args)-1] = j.steps
	var ended sync.WaitGroup
	for rank := range workHosts * perHost {
		cmd := exec.Command(l.path("bin", args[0]), args[1:]...)
		cmd.Stdout, cmd.Stderr = &j.err, &j.err
		cmd.Env = append([]string{
			"PATH=" + l.searchPath(), "HOME=" + dir, program.LogVariable + "=1", fmt.Sprint("COPPICE_RANK=", rank), fmt.Sprint("COPPICE_SIZE=", workHosts*perHost),
			"COPPICE_KEY=a key of " + dir, fmt.Sprint("LOCAL_RANK=", rank%perHost), fmt.Sprint("LOCAL_WORLD_SIZE=", perHost),
		}, env...)
		if err := n.Hosts[rank/perHost].Start(cmd); err != nil {
			return nil, err
		}
		j.hands = append(j.hands, hand{rank, cmd})
		ended.Go(func() { _ = cmd.Wait() }) // its state says more
	}
	j.cmd = j.hands[0].cmd
	all := make(chan struct{})
	go func() {
		defer close(all)
		ended.Wait()
	}()
	go func() {
		defer close(j.over)
		if j.killed = j.watch(all, 2*lasts+4*time.Minute); j.killed != "" {
			j.kill()
			<-all
		}
	}()
	return j, nil
}

// handReport reports how the processes ended.
func (j *job) handReport() *report {
	r := &report{Exit: 1, Cause: "no process has ended well"}
	for _, h := range j.hands {
		state := h.cmd.ProcessState
		if state.Success() {
			r.Exit, r.Cause = 0, ""
		} else {
			r.Killed = append(r.Killed, h.rank)
		}
	}
	return r
}

// byHandRows returns the rows of jobs started by hand.
func byHandRows() (all []row) {
	const s = time.Second
	add := func(name string, a across) {
		a.byHand = true
		all = append(all, row{name: "by hand: " + name, hosts: true, takes: a.lasts + 3*s, run: a.run})
	}
	first := func(int) int { return 0 }
	firstHost := func(int) [][]int { return [][]int{ranksOf(0)} }
	add("one process killed", across{lasts: 8 * s, harm: killRank(oneProcess), may: theOneProcess, must: true, stall: 4 * s})
	add("process of rank 0 killed", across{lasts: 8 * s, harm: killRank(first), may: rankZero, must: true, stall: 4 * s})
	add("five coordinators killed, one after the other", across{lasts: 30 * s, harm: killCoordinator(5), may: func(int) [][]int { return [][]int{{0, 1, 2, 3, 4}} }, must: true, stall: 6 * s})
	add("one host loses power", across{lasts: 12 * s, harm: powerOff(victim), may: theVictim, must: true, stall: 5 * s})
	add("the coordinator's host loses power", across{lasts: 12 * s, harm: powerOff(first), may: firstHost, must: true, stall: 5 * s})
	for _, d := range []time.Duration{2 * s, 2900 * time.Millisecond} {
		add(fmt.Sprintf("the coordinator's host cut off for %v", d), across{lasts: d + 8*s, harm: cutOff(first, d), may: nobody})
	}
	add("the coordinator's host cut off for 10s", across{lasts: 18 * s, harm: cutOff(first, 10*s), may: firstHost, must: true, stall: 5 * s})
	return append(all, row{name: "by hand: two of four hosts cut from the others", hosts: true, takes: 20 * s, run: cutInHalves((*lab).startByHand, nil)})
}

// cutInHalves is a job that is cut into two halves after something else has happened to it: neither has
// a majority, and every process must end and say so.
func cutInHalves(start func(*lab, context.Context, *hostNetwork, time.Duration) (*job, error), before func(*job, int) error) func(context.Context, *lab, int) outcome {
	return func(ctx context.Context, l *lab, i int) (o outcome) {
		n, err := l.newNetwork()
		if err != nil {
			return failed(err)
		}
		defer n.Close()
		j, err := start(l, ctx, n, time.Minute)
		if err != nil {
			return failed(err)
		}
		defer func() { o.log = j.log() }()
		o.add(j.awaitSteps(firstStep + i*7%20))
		if before != nil {
			o.add(before(j, i))
		}
		o.add(n.Part([]int{0, 1}, []int{2, 3}))
		began := time.Now()
		o.add(j.leavesNothing(goneTime, process.ours))
		o.extra = map[string]float64{"gone s": time.Since(began).Seconds()}
		<-j.over
		if said, all := strings.Count(j.err.String(), "program: "), len(j.hands); said != all || strings.Count(j.err.String(), "no quorum to follow") < all {
			o.addf("%d of %d processes have ended with an error for want of a quorum", said, all)
		}
		o.right = len(o.problems) == 0
		return o
	}
}
