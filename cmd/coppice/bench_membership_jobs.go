package main

import (
	"bytes"
	"cmp"
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
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/bench/clock"
	"github.com/coppice-go/coppice/bench/floor"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/internal/launch"
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

// membershipLine is what a process of the job writes: that it is ready, or what
// it saw of the death.
type membershipLine struct {
	Rank    int   `json:"rank"`
	PID     int   `json:"pid,omitempty"`     // ready
	Learned int64 `json:"learned,omitempty"` // absent: only by the view
	Opened  int64 `json:"opened,omitempty"`
}

// membershipSink takes the lines of all processes of a job.
type membershipSink struct {
	n     int
	ready chan struct{} // closed when all are ready

	mu   sync.Mutex
	rest []byte
	pids map[int]int
	seen map[int]membershipLine
}

func newMembershipSink(n int) *membershipSink {
	return &membershipSink{n: n, ready: make(chan struct{}), pids: map[int]int{}, seen: map[int]membershipLine{}}
}

func (s *membershipSink) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, text...)
	for {
		line, rest, ok := bytes.Cut(s.rest, []byte("\n"))
		if !ok {
			return len(text), nil
		}
		s.rest = rest
		if err := s.take(line); err != nil {
			return 0, err
		}
	}
}

// take reads [RANK] and a JSON document.
func (s *membershipSink) take(line []byte) error {
	var l membershipLine
	begin := max(0, bytes.IndexByte(line, '{'))
	if err := json.Unmarshal(line[begin:], &l); err != nil || l.Rank < 0 || l.Rank >= s.n {
		return fmt.Errorf("line %q of a process; want what it saw", line)
	}
	if l.PID == 0 {
		s.seen[l.Rank] = l
		return nil
	}
	if s.pids[l.Rank] = l.PID; len(s.pids) == s.n {
		close(s.ready)
	}
	return nil
}

// change sums up what the survivors saw.
func (s *membershipSink) change(killed int64, victim int) (v viewChange, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, sees := s.seen[victim]; sees || len(s.seen) != s.n-1 {
		return v, fmt.Errorf("%d survivors of rank %d saw a new view; want %d", len(s.seen), victim, s.n-1)
	}
	since := func(at int64) float64 { return float64(at-killed) / 1e3 }
	proposer := 0
	if victim == 0 {
		proposer = 1
	}
	if s.seen[proposer].Learned == 0 {
		return v, fmt.Errorf("death of rank %d: no word of it in the log of rank %d, which proposes the view", victim, proposer)
	}
	v.proposer = since(s.seen[proposer].Learned)
	v.detection = v.proposer
	for _, l := range s.seen {
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

// jobTime bounds a job of n processes.
func jobTime(n int) time.Duration { return 30*time.Second + time.Duration(n)*200*time.Millisecond }

// killOne starts a job, kills one of its processes and returns how the others got
// over it.
func (m *membershipBench) killOne(ctx context.Context, n, victim int) (v viewChange, err error) {
	self, err := os.Executable()
	if err != nil {
		return v, err
	}
	sink := newMembershipSink(n)
	env := []string{transport.ChooseVariable + "=" + transport.Unix}
	if m.plan.fanout > 0 {
		env = append(env, fanoutVariable+"="+strconv.Itoa(m.plan.fanout))
	}
	plan, err := launch.New(launch.Config{
		N: n, StdinRank: -1, Timeout: jobTime(n), Env: env,
		Program: self, Args: []string{"bench-membership-process", strconv.Itoa(victim)},
		Output: launch.Output{Stdout: sink, Stderr: m.console.stderr, Prefix: true},
	})
	if err != nil {
		return v, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	killed := make(chan int64, 1)
	go func() {
		defer close(killed)
		select {
		case <-sink.ready:
		case <-ctx.Done():
			return
		}
		time.Sleep(settleTime)
		at := clock.Now()
		if syscall.Kill(sink.pids[victim], syscall.SIGKILL) == nil {
			killed <- at
		}
	}()
	run, err := plan.Run(ctx)
	cancel()
	at := <-killed
	if err != nil {
		return v, err
	}
	if !slices.Equal(run.Killed, []int{victim}) || run.Exit != 0 {
		return v, fmt.Errorf("death of rank %d of %d: %s", victim, n, cmp.Or(run.Cause, "nobody died"))
	}
	return sink.change(at, victim)
}

// floor is a death among plain processes.
func (m *membershipBench) floor(ctx context.Context, n, victim int) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	times, err := floor.Measure(ctx, n, victim, func(dir string, rank int) []string {
		return []string{self, "bench-floor-process", dir, strconv.Itoa(rank), strconv.Itoa(n)}
	})
	return microseconds(times.Took()), err
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
