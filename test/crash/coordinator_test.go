package crash_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/port"
	"github.com/coppice-go/coppice/test/stage"
)

func init() { stage.Plays["rounds"] = rounds }

// rounds is a play of rounds, each of which saves and adds up the tasks' values.
func rounds(tell func(stage.Line), words []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		voice := stage.Telling(tell, t)
		voice(stage.Line{What: "begun"})
		sum := int64(0)
		for round := int64(0); round < int64(stage.Number(words[0])); {
			all, err := coppice.AllReduce(ctx, t, []int64{round*int64(t.Size()) + int64(t.Rank())}, coppice.Sum)
			if err != nil {
				return err
			}
			round++
			sum += all[0]
			state := [2]int64{round, sum}
			if err := coppice.Save(ctx, t, &state); err != nil {
				return err
			}
			round, sum = state[0], state[1]
			if round == 1 {
				voice(stage.Line{What: "ready"})
			}
			time.Sleep(5 * time.Millisecond)
		}
		voice(stage.Line{What: "sum", Value: int(sum)})
		return nil
	}
}

// TestTheCoordinatorIsKilledAgainAndAgain kills the process that has the coordinator, then its
// successor, and so on: the last process finishes the job.
func TestTheCoordinatorIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	const n, last = 5, 300
	stages, all := srun(t, stage.Scene{N: n, Play: []string{"rounds", fmt.Sprint(last)}})
	for _, g := range stages {
		g.Await(t, "ready", 1)
	}
	for rank := range n - 1 {
		time.Sleep(200 * time.Millisecond)
		if err := all[rank].Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := all[n-1].Wait(); err != nil {
		t.Errorf("the last process: %v", err)
	}
	checkRounds(t, n, last, stages[n-1])
}

// checkRounds checks the sums of all tasks after the last round, as some processes report them.
func checkRounds(t *testing.T, n, last int, stages ...*stage.Stage) {
	t.Helper()
	want, told := last*(n-1)*n/2+n*n*(last-1)*last/2, map[int]bool{}
	for _, g := range stages {
		for _, l := range g.Of("sum") {
			if told[l.Rank] = true; l.Value != want {
				t.Errorf("task %d: %d, want %d", l.Rank, l.Value, want)
			}
		}
	}
	if len(told) != n {
		t.Errorf("%d of %d tasks have come to their end", len(told), n)
	}
}

// TestTheCoordinatorIsStopped stops the process that has the coordinator: a majority goes on without
// it, and a successor takes its place. The stopped process must not keep it.
func TestTheCoordinatorIsStopped(t *testing.T) {
	t.Parallel()
	const n, last = 4, 100
	stages, all := srun(t, stage.Scene{N: n, Play: []string{"rounds", fmt.Sprint(last)}, Settings: stage.Settings{Silence: time.Second}})
	for _, g := range stages {
		g.Await(t, "ready", 1)
	}
	if err := all[0].Process.Signal(posix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range all[1:] {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v", err)
		}
	}
	checkRounds(t, n, last, stages[1:]...)
	if err := all[0].Wait(); err == nil || all[0].ProcessState.ExitCode() != -1 {
		t.Errorf("the process that was stopped has ended with %v, want a signal", err)
	}
}

// TestKilledBeforeTheOthersBegin kills a process while too few have begun to go on without it: those
// that have begun wait for the others.
func TestKilledBeforeTheOthersBegin(t *testing.T) {
	for _, c := range []struct {
		n, first, victim int
		wait             time.Duration // until the others begin
	}{
		{6, 4, 0, 500 * time.Millisecond}, // the victim has the coordinator
		{6, 4, 2, 0},
		{6, 2, 0, 4 * time.Second},
		{3, 2, 0, 4 * time.Second},
		{3, 2, 1, 4 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d-of-%d-without-%d", c.first, c.n, c.victim), func(t *testing.T) {
			t.Parallel()
			const last = 20
			scene := stage.Scene{
				N: c.n, Play: []string{"rounds", fmt.Sprint(last)}, Settings: stage.Settings{Silence: 500 * time.Millisecond},
			}
			env := []string{fmt.Sprint("COPPICE_SIZE=", c.n), "COPPICE_COORDINATOR=" + port.Free(t), "COPPICE_KEY=the key of " + t.Name()}
			var stages []*stage.Stage
			var all []*exec.Cmd
			start := func(until int) {
				for rank := len(all); rank < until; rank++ {
					g, cmd := scene.Started(t, exec.Command(os.Args[0]), append(env, fmt.Sprint("COPPICE_RANK=", rank), control.VarTrace+"="))
					stages, all = append(stages, g), append(all, cmd)
				}
			}
			start(c.first)
			for _, g := range stages {
				g.Await(t, "begun", 1)
			}
			if err := all[c.victim].Process.Kill(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.wait)
			start(c.n)
			for rank, cmd := range all {
				if err := cmd.Wait(); err != nil && rank != c.victim {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
			checkRounds(t, c.n, last, stages...)
		})
	}
}

// TestCoordinatorIsStartedAgainBeforeItIsGone: the process of the only seed is stopped, and killed only
// after it has been started again. Then the new process has the coordinator.
func TestCoordinatorIsStartedAgainBeforeItIsGone(t *testing.T) {
	t.Parallel()
	const n, last = 3, 20
	scene := stage.Scene{N: n, Play: []string{"rounds", fmt.Sprint(last)}}
	env := []string{fmt.Sprint("COPPICE_SIZE=", n), "COPPICE_COORDINATOR=" + port.Free(t), "COPPICE_KEY=the key of " + t.Name(), control.VarTrace + "="}
	start := func(rank int) (*stage.Stage, *exec.Cmd) {
		return scene.Started(t, exec.Command(os.Args[0]), append(env, fmt.Sprint("COPPICE_RANK=", rank)))
	}
	g, first := start(0)
	g.Await(t, "begun", 1)
	if err := first.Process.Signal(posix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stages, all := []*stage.Stage{nil}, []*exec.Cmd{nil}
	stages[0], all[0] = start(0)
	time.Sleep(300 * time.Millisecond)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	for rank := 1; rank < n; rank++ {
		g, cmd := start(rank)
		stages, all = append(stages, g), append(all, cmd)
	}
	for rank, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", rank, err)
		}
	}
	checkRounds(t, n, last, stages...)
}

// TestProcessWithTheCoordinatorIsStartedAgain: this works even at once, before another process has
// taken over the coordinator, and though the variables of the new process say that it has the
// coordinator.
func TestProcessWithTheCoordinatorIsStartedAgain(t *testing.T) {
	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			t.Parallel()
			const n, last = 3, 200
			scene := stage.Scene{N: n, Play: []string{"rounds", fmt.Sprint(last)}}
			env := []string{fmt.Sprint("COPPICE_SIZE=", n), "COPPICE_COORDINATOR=" + port.Free(t), "COPPICE_KEY=the key of " + t.Name(), control.VarTrace + "="}
			start := func(rank int) (*stage.Stage, *exec.Cmd) {
				return scene.Started(t, exec.Command(os.Args[0]), append(env, fmt.Sprint("COPPICE_RANK=", rank)))
			}
			var stages []*stage.Stage
			var all []*exec.Cmd
			for rank := range n {
				g, cmd := start(rank)
				stages, all = append(stages, g), append(all, cmd)
			}
			for _, g := range stages {
				g.Await(t, "ready", 1)
			}
			if err := all[0].Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = all[0].Wait()
			time.Sleep(wait)
			g, cmd := start(0)
			for rank, cmd := range append(all[1:], cmd) {
				if err := cmd.Wait(); err != nil {
					t.Errorf("process %d: %v", rank, err)
				}
			}
			checkRounds(t, n, last, append(stages, g)...)
		})
	}
}
