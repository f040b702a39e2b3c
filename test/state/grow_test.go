package state_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

func init() { stage.Plays["roam"], stage.Plays["young"] = roaming, young }

// roaming saves in each round, and reports the round, until the test writes a file. At the end it
// reports a digest of its state.
func roaming(tell func(stage.Line), args []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		say := stage.Telling(tell, t)
		seed, err := coppice.Once(ctx, t, func(context.Context) (uint64, error) { return uint64(t.Rank() + 3), nil })
		if err != nil {
			return err
		}
		first, err := coppice.AllReduce(ctx, t, seed, coppice.Sum) // also between tasks of one process
		if err != nil {
			return err
		}
		w := walk{Sum: first}
		for {
			if err := coppice.Save(ctx, t, &w); err != nil {
				say(stage.Failure("left", err))
				return err
			}
			say(stage.Line{What: "round", Value: w.Round, Text: os.Getenv(control.VarDir)})
			stop, err := coppice.Once(ctx, t, func(context.Context) (int, error) {
				if _, err := os.Stat(args[0]); err != nil {
					return 0, nil
				}
				return 1, nil
			})
			if err != nil {
				return err
			}
			over, err := coppice.AllReduce(ctx, t, stop, coppice.Min)
			if err != nil {
				return err
			}
			if over == 1 && w.Round >= 20 {
				break
			}
			if w.Sum, err = coppice.AllReduce(ctx, t, w.Sum*3+seed, coppice.Sum); err != nil {
				return err
			}
			if w.Round < 20 {
				w.Trail = append(w.Trail, w.Sum)
			}
			w.Round++
			time.Sleep(time.Millisecond)
		}
		say(stage.Line{What: "trail", Text: fmt.Sprint(w.Trail), Value: w.Round})
		return nil
	}
}

// TestGrowAndShrink: while a job runs it grows from 2 processes to 8, which take over tasks, and
// then shrinks to 3.
func TestGrowAndShrink(t *testing.T) {
	t.Parallel()
	stop := t.TempDir() + "/stop"
	s := stage.Scene{N: 2, Play: []string{"roam", stop}, Grow: 6}
	s.Tasks = 8
	g := s.Begin(t)
	dir := g.Await(t, "round", 16)[0].Text
	joined, err := control.RequestJoin(t.Context(), dir, control.JoinRequest{Count: 6, Rank: -1})
	if err != nil {
		t.Fatal(err)
	}
	pids := func() map[int]int { // by task, in the last round that all have reported
		last, of := map[int]int{}, map[int]int{}
		for _, l := range g.Of("round") {
			last[l.Rank], of[l.Rank] = l.Value, l.Pid
		}
		return of
	}
	spread := func() int {
		processes := map[int]bool{}
		for _, pid := range pids() {
			processes[pid] = true
		}
		return len(processes)
	}
	for until := time.Now().Add(stage.PatienceTime); spread() < 8; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("tasks are in %v; joined %v; left %v", pids(), joined, g.Of("left"))
		}
	}
	for _, j := range joined[:5] { // each when what the last one held has been copied again
		posix.Kill(j.Pid, syscall.SIGKILL)
		awaitRounds(t, g, 8)
	}
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	report := g.End(t)
	if report.Exit != 0 {
		t.Errorf("exit %d: %s", report.Exit, report.Cause)
	}
	for _, l := range g.Of("left") {
		if l.Kind != "moved" {
			t.Errorf("task %d: %s", l.Rank, l.Text)
		}
	}
	alone, err := stage.Scene{N: 1, Settings: stage.Settings{Tasks: 8}, Play: []string{"roam", stop}}.Local(t)
	if err != nil {
		t.Fatal(err)
	}
	want, ended := alone.Of("trail")[0].Text, map[int]bool{}
	for _, l := range g.Of("trail") {
		ended[l.Rank] = true
		if l.Text != want {
			t.Errorf("task %d has %s, want %s", l.Rank, l.Text, want)
		}
	}
	if len(ended) != 8 {
		t.Errorf("%d tasks have ended", len(ended))
	}
}

// awaitRounds returns when each task of a roaming job has saved twice from now on.
func awaitRounds(t *testing.T, g *stage.Stage, tasks int) {
	t.Helper()
	rounds := func() (lowest, highest int) {
		last := map[int]int{}
		for _, l := range g.Of("round") {
			last[l.Rank] = max(last[l.Rank], l.Value)
			highest = max(highest, l.Value)
		}
		if len(last) < tasks {
			return 0, highest
		}
		return slices.Min(slices.Collect(maps.Values(last))), highest
	}
	_, began := rounds()
	for until := time.Now().Add(stage.PatienceTime); ; time.Sleep(5 * time.Millisecond) {
		lowest, _ := rounds()
		if lowest >= began+2 {
			return
		}
		select {
		case <-g.Over:
			return // the end says why
		default:
		}
		if time.Now().After(until) {
			t.Fatalf("in round %d, the slowest task in %d", began, lowest)
		}
	}
}

// roamsVariable is the environment variable with the number of jobs that grow and shrink at random,
// instead of the usual few.
const roamsVariable = "COPPICE_ROAMS"

// TestRoamingJobs: processes are killed and others join at random moments; sometimes the launcher
// restarts the killed ones.
func TestRoamingJobs(t *testing.T) {
	jobs := stage.Short(4, 2)
	if n := os.Getenv(roamsVariable); n != "" {
		jobs = stage.Number(n)
	}
	seed, kills, joins, moves := stage.Drawn(roamsVariable), 0, 0, 0
	for i := range jobs {
		rng := rand.New(rand.NewPCG(seed+uint64(i), 9))
		stop := t.TempDir() + "/stop"
		s := stage.Scene{N: 1 + rng.IntN(3), Play: []string{"roam", stop}, Grow: 5}
		s.Tasks, s.Copies = s.N+rng.IntN(6), 3
		if rng.IntN(3) == 0 {
			s.Respawn = launch.RespawnAlways
		}
		g := s.Begin(t)
		first := g.Await(t, "round", s.Tasks)
		dir, live := first[0].Text, map[int]bool{}
		for _, l := range first {
			live[l.Pid] = true
		}
		recent := 0                                                   // kills of which the job may not have recovered
		spared := slices.Sorted(maps.Keys(live))[rng.IntN(len(live))] // a joiner may not have joined yet when all others are dead
		for range 3 + rng.IntN(8) {
			time.Sleep(time.Duration(15+rng.IntN(30)) * time.Millisecond)
			if len(live) > 1 && rng.IntN(2) == 0 {
				pids := slices.Sorted(maps.Keys(live))
				pid := pids[rng.IntN(len(pids))]
				if pid == spared {
					continue
				}
				delete(live, pid)
				if recent == s.Copies-1 {
					awaitRounds(t, g, s.Tasks)
					recent = 0
				}
				if posix.Kill(pid, syscall.SIGKILL) == nil {
					kills++
					recent++
				}
				continue
			}
			joined, err := control.RequestJoin(t.Context(), dir, control.JoinRequest{Count: 1, Rank: -1})
			if err != nil {
				continue // no more may join
			}
			live[joined[0].Pid] = true
			joins++
		}
		if err := os.WriteFile(stop, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		report := g.End(t)
		alone, err := stage.Scene{N: 1, Settings: stage.Settings{Tasks: s.Tasks}, Play: []string{"roam", stop}}.Local(t)
		if err != nil {
			t.Fatal(err)
		}
		want, ended := alone.Of("trail")[0].Text, map[int]bool{}
		for _, l := range g.Of("trail") {
			ended[l.Rank] = true
			if l.Text != want {
				t.Errorf("seed %d: task %d has %s, want %s", seed+uint64(i), l.Rank, l.Text, want)
			}
		}
		for _, l := range g.Of("left") {
			if moves++; l.Kind != "moved" {
				t.Errorf("seed %d: task %d: %s", seed+uint64(i), l.Rank, l.Text)
			}
		}
		if report.Exit != 0 || len(ended) != s.Tasks {
			t.Fatalf("seed %d: exit %d, %d of %d tasks: %s", seed+uint64(i), report.Exit, len(ended), s.Tasks, report.Cause)
		}
	}
	t.Logf("%d jobs: %d killed, %d joined, %d tasks moved", jobs, kills, joins, moves)
}

// young is a play of rounds of collective operations.
func young(tell func(stage.Line), _ []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		sum := 0
		for round := range 6 {
			time.Sleep(5 * time.Millisecond)
			if err := coppice.Barrier(ctx, t); err != nil {
				return err
			}
			all, err := coppice.AllReduce(ctx, t, t.Rank()+round, coppice.Sum)
			if err != nil {
				return err
			}
			if _, err := coppice.Gather(ctx, t, all); err != nil {
				return err
			}
			sum += all
		}
		stage.Telling(tell, t)(stage.Line{What: "sum", Value: sum})
		return nil
	}
}

// TestTheYoungDeadAreRespawned: processes that are killed when the job has hardly begun, some before
// they have joined, come back at once, before others know of the crashes.
func TestTheYoungDeadAreRespawned(t *testing.T) {
	jobs := stage.Short(6, 3)
	if n := os.Getenv(roamsVariable); n != "" {
		jobs = stage.Number(n)
	}
	seed := stage.Drawn(roamsVariable)
	for i := range jobs {
		rng := rand.New(rand.NewPCG(seed+uint64(i), 10))
		s := stage.Scene{N: 4, Play: []string{"young"}, Respawn: launch.RespawnAlways}
		for _, rank := range rng.Perm(s.N)[:3] {
			s.Kills = append(s.Kills, fmt.Sprintf("%d@%dms", rank, 5+rng.IntN(100)))
		}
		g := s.Begin(t)
		report := g.End(t)
		sums := map[int]int{}
		for _, l := range g.Of("sum") {
			sums[l.Rank] = l.Value
		}
		want := map[int]int{0: 96, 1: 96, 2: 96, 3: 96} // 6·(0+1+2+3) + 4·(0+…+5)
		if report.Exit != 0 || !maps.Equal(sums, want) {
			t.Fatalf("seed %d, kills %v: exit %d, sums %v: %s", seed+uint64(i), s.Kills, report.Exit, sums, report.Cause)
		}
	}
}
