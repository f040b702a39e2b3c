package main

import (
	"bytes"
	"cmp"
	"context"
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

	"github.com/coppice-go/coppice/bench/clock"
	"github.com/coppice-go/coppice/bench/floor"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/transport"
)

// viewChange is one death, in µs.
type viewChange struct {
	detection float64 // SIGKILL → the first survivor knows
	proposer  float64 // SIGKILL → the proposer knows: the lowest rank that lives
	total     float64 // SIGKILL → the last survivor has opened the view without it
}

// stabilization is the time from when the proposer knows to when all have the view.
func (v viewChange) stabilization() float64 { return v.total - v.proposer }

// change sums up what the survivors of a death saw.
func (s *deathSink) change(death int, killed int64, victims []int) (v viewChange, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, victim := s.seen[death], victims[death]
	if _, sees := seen[victim]; sees || len(seen) != s.n-1-death {
		return v, fmt.Errorf("%d survivors of rank %d saw a new view; want %d", len(seen), victim, s.n-1-death)
	}
	since := func(at int64) float64 { return float64(at-killed) / 1e3 }
	proposer := 0
	for slices.Contains(victims[:death+1], proposer) {
		proposer++
	}
	if seen[proposer].Learned == 0 {
		return v, fmt.Errorf("death of rank %d: no word of it in the log of rank %d, which proposes the view", victim, proposer)
	}
	v.proposer = since(seen[proposer].Learned)
	v.detection = v.proposer
	for _, l := range seen {
		if l.Learned != 0 {
			v.detection = min(v.detection, since(l.Learned))
		}
		v.total = max(v.total, since(l.Opened))
	}
	if v.detection < 0 || v.total < v.proposer {
		return v, fmt.Errorf("death of rank %d: known after %.1f µs, a view after %.1f µs", victim, v.detection, v.total)
	}
	return v, nil
}

// settleTime is how long processes are left alone before one is killed: longer than
// it takes them to connect with their children in the tree of the view.
const settleTime = 600 * time.Millisecond

// jobSilence is how long a process may be silent: longer than it waits for its turn
// where hundreds share a processor. Here it is the kernel that tells of a death.
const jobSilence = 30 * time.Second

// jobTime bounds a job of n processes.
func jobTime(n int) time.Duration { return 30*time.Second + time.Duration(n)*200*time.Millisecond }

// killOne measures two deaths in a job, of which the first is a rehearsal.
func (m *membershipBench) killOne(ctx context.Context, n, victim int) (first, v viewChange, err error) {
	var env []string
	if m.plan.fanout > 0 {
		env = append(env, fanoutVariable+"="+strconv.Itoa(m.plan.fanout))
	}
	return killTwo(ctx, n, victim, false, []string{"bench-membership-process"}, env, (*deathSink).change)
}

// deadlyJob is a job of this command's own processes, some of which are killed one
// after the other.
type deadlyJob struct {
	n       int
	victims []int    // ranks
	args    []string // of a process
	env     []string
	sink    *deathSink
}

// run returns when they were killed. If anybody else dies, or a task does not end well,
// it is an error.
func (d deadlyJob) run(ctx context.Context) ([]int64, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	plan, err := launch.New(launch.Config{
		N: d.n, StdinRank: -1, Settings: control.Settings{Silence: jobSilence},
		Env:     append([]string{transport.ChooseVariable + "=" + transport.Unix}, d.env...),
		Program: self, Args: d.args,
		Output: launch.Output{Stdout: d.sink, Prefix: true},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, jobTime(d.n))
	defer cancel()
	times := make(chan []int64, 1)
	go func() { times <- d.killInTurn(ctx) }()
	run, err := plan.Run(ctx)
	late := ctx.Err() == context.DeadlineExceeded
	cancel()
	killed := <-times
	if err != nil {
		return nil, err
	}
	if late {
		return nil, fmt.Errorf("deaths of ranks %v of %d: no end within %v", d.victims, d.n, jobTime(d.n))
	}
	if !slices.Equal(slices.Sorted(slices.Values(run.Killed)), slices.Sorted(slices.Values(d.victims))) || run.Exit != 0 || len(killed) != len(d.victims) {
		return nil, fmt.Errorf("deaths of ranks %v of %d: %s", d.victims, d.n, cmp.Or(run.Cause, "nobody died"))
	}
	return killed, nil
}

// killInTurn kills processes, each when all are ready for it, and returns when.
func (d deadlyJob) killInTurn(ctx context.Context) (killed []int64) {
	for i, victim := range d.victims {
		select {
		case <-d.sink.ready[i]:
		case <-ctx.Done():
			return killed
		}
		time.Sleep(settleTime)
		pid := d.sink.pid(victim)
		at := clock.Now()
		if posix.Kill(pid, syscall.SIGKILL) != nil {
			return killed
		}
		killed = append(killed, at)
	}
	return killed
}

func decimals[N ~int | ~int32](numbers []N) []string {
	return each(numbers, func(n N) string { return strconv.Itoa(int(n)) })
}

// floor is a death among plain processes.
func (m *membershipBench) floor(ctx context.Context, n, victim int) (float64, error) {
	times, err := floorTimes(ctx, n, victim)
	return microseconds(times.Took()), err
}

func floorTimes(ctx context.Context, n, victim int) (floor.Times, error) {
	self, err := os.Executable()
	if err != nil {
		return floor.Times{}, err
	}
	return floor.Measure(ctx, n, victim, func(dir string, rank int) []string {
		return []string{self, "bench-floor-process", dir, strconv.Itoa(rank), strconv.Itoa(n)}
	})
}

// benchFloorProcessCmd is a process of the floor.
type benchFloorProcessCmd struct {
	Dir  string `arg:""`
	Rank int    `arg:""`
	N    int    `arg:""`
}

func (b *benchFloorProcessCmd) Run(c *console) error {
	return floor.Run(b.Dir, b.Rank, b.N, os.Stdin, c.stdout)
}

// memberlistProgram is what measures memberlist: not part of this command, which
// would take half as long again to build.
const memberlistProgram = "github.com/coppice-go/coppice/bench/memberlistloop"

// buildMemberlist builds the program, or says why not: then that side is left out.
func (m *membershipBench) buildMemberlist(ctx context.Context) {
	err := func() (err error) {
		if m.dir, err = os.MkdirTemp("", "coppice-bench-"); err != nil {
			return err
		}
		path := filepath.Join(m.dir, "memberlistloop")
		out, err := exec.CommandContext(ctx, "go", "build", "-o", path, memberlistProgram).CombinedOutput()
		if err != nil {
			return errors.New(benchloop.Gist(out, err))
		}
		m.peer = path
		return nil
	}()
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(m.console.stderr, "coppice: memberlist is left out, as its program does not build here: %v\n", err)
	}
}

// memberlist is a crash among its members.
func (m *membershipBench) memberlist(ctx context.Context, n int) (float64, error) {
	var diagnosis bytes.Buffer
	cmd := exec.CommandContext(ctx, m.peer, strconv.Itoa(n))
	cmd.Stderr = &diagnosis
	out, err := cmd.Output()
	if err != nil {
		return 0, errors.New(benchloop.Gist(diagnosis.Bytes(), err))
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}
