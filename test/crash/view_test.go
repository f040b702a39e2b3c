package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

func init() {
	stage.Plays["watch"] = watching
}

// watching is a play in which tasks report every view they see, until a view has as few processes as
// the argument says, or an interrupt ends them. The tasks given as further arguments die in barriers
// meanwhile, in their first attempt.
func watching(tell func(stage.Line), args []string) coppice.Func {
	few := stage.Number(args[0])
	return func(ctx context.Context, t *coppice.Task) error {
		tell := stage.Telling(tell, t)
		tell(stage.Line{What: "ready"})
		if slices.Contains(args[1:], fmt.Sprint(t.Rank())) && t.Attempt() == 0 {
			_ = coppice.Barrier(ctx, t) // it dies in it
		}
		for v := range t.Views(ctx) {
			tell(stage.Line{What: "view", Value: int(v.Number), Text: stage.Sketch(v), Tasks: []int{t.Attempt()}})
			if len(v.Processes) <= few {
				return nil
			}
		}
		err := context.Cause(ctx)
		if err == nil { // the job has ended for this process: any operation says why
			err = coppice.Barrier(ctx, t)
		}
		tell(stage.Failure("error", err))
		return nil
	}
}

// sameViews checks that no two tasks saw different views of a number, and that numbers grow in every
// attempt of a task. (In Local a crashed attempt may still report while another one runs.)
func sameViews(t *testing.T, views []stage.Line) {
	t.Helper()
	type run struct{ task, attempt int }
	by, last := map[int]string{}, map[run]int{}
	for _, l := range views {
		if by[l.Value] == "" {
			by[l.Value] = l.Text
		}
		if by[l.Value] != l.Text {
			t.Errorf("two views of number %d: %s and %s", l.Value, by[l.Value], l.Text)
		}
		r := run{l.Rank, l.Tasks[0]}
		if l.Value <= last[r] {
			t.Errorf("task %d saw view %d after %d in attempt %d", l.Rank, l.Value, last[r], r.attempt)
		}
		last[r] = l.Value
	}
}

// sawLast checks that the survivors' view, with these members, is the last one that these tasks saw, in
// their last attempt.
func sawLast(t *testing.T, views []stage.Line, members string, tasks ...int) {
	t.Helper()
	last := map[int]stage.Line{}
	for _, l := range views {
		if was, any := last[l.Rank]; !any || l.Tasks[0] >= was.Tasks[0] {
			last[l.Rank] = l
		}
	}
	for _, task := range tasks {
		if l := last[task]; l.Text != members {
			t.Errorf("task %d saw %q last, not the view of the survivors, %q", task, l.Text, members)
		}
	}
}

// TestSurvivorsSeeTheSameViews: so do the tasks of crashed processes, if they are run again.
func TestSurvivorsSeeTheSameViews(t *testing.T) {
	kills := []string{"0@barrier#1", "2@barrier#1", "5@barrier#1"}
	for name, c := range map[string]struct {
		recovery coppice.Recovery
		see      []int // tasks
	}{
		"Report": {coppice.Report, []int{1, 3, 4}},
		"Replay": {coppice.Replay, []int{0, 1, 2, 3, 4, 5}},
	} {
		s := stage.Scene{N: 6, Play: []string{"watch", "3", "0", "2", "5"}, Settings: stage.Settings{Recovery: c.recovery, Kill: kills}}
		check := func(t *testing.T, x *stage.Script) {
			t.Helper()
			sameViews(t, x.Of("view"))
			sawLast(t, x.Of("view"), "1 3 4", c.see...)
		}
		t.Run(name+"/Local", func(t *testing.T) {
			x, err := s.Local(t)
			if err != nil {
				t.Error(err)
			}
			check(t, x)
		})
		t.Run(name+"/processes", func(t *testing.T) {
			x, report := s.Real(t)
			if report.Exit != 0 {
				t.Errorf("exit %d", report.Exit)
			}
			check(t, x)
		})
	}
}

// TestHalfDieAtOnce kills half of 64 processes at one instant, the lowest of all among them: the
// survivors agree on one view, in which they run the tasks of the others.
func TestHalfDieAtOnce(t *testing.T) {
	n := stage.Short(64, 16)
	g := stage.Scene{N: n, Play: []string{"watch", fmt.Sprint(n / 2)}}.Begin(t)
	pids := g.Pids(t, "ready")
	g.Await(t, "view", n)
	victims := rand.Perm(n - 1)[:n/2-1]
	for i := range victims {
		victims[i]++
	}
	victims = append(victims, 0)
	for _, r := range victims {
		if err := posix.Kill(pids[r], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	report := g.End(t)
	if report.Exit != 0 {
		t.Errorf("exit %d", report.Exit)
	}
	views := g.Of("view")
	sameViews(t, views)
	sawLast(t, views, stage.List(stage.Without(n, victims...)), stage.Without(n)...)
}

// TestAStoppedProcessIsFenced stops one of two processes: it is killed, and the other goes on alone,
// with both tasks.
func TestAStoppedProcessIsFenced(t *testing.T) {
	g := stage.Scene{N: 2, Play: []string{"watch", "1"}, Settings: stage.Settings{Silence: 400 * time.Millisecond}}.Begin(t)
	pids := g.Pids(t, "ready")
	g.Await(t, "view", 2)
	if err := posix.Kill(pids[0], posix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	report := g.End(t)
	if len(report.Killed) != 1 || report.Killed[0] != 0 {
		t.Errorf("killed %v", report.Killed)
	}
	views := g.Of("view")
	sameViews(t, views)
	sawLast(t, views, "1", 0, 1)
}

// TestPausesChangeNoView stops processes for a third of the allowed silence, again and again.
func TestPausesChangeNoView(t *testing.T) {
	t.Parallel()
	const n, silence = 4, 3 * time.Second
	g := stage.Scene{N: n, Play: []string{"watch", "0"}, Settings: stage.Settings{Silence: silence}}.Begin(t)
	pids := g.Pids(t, "ready")
	g.Await(t, "view", n)
	for i := range stage.Short(3, 1) {
		pid := pids[(i*2+1)%n]
		if err := posix.Kill(pid, posix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(silence / 3)
		if err := posix.Kill(pid, posix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(silence / 3)
	end := time.Now() // tasks that live longer may see the others die
	for _, pid := range pids {
		_ = posix.Kill(pid, syscall.SIGINT)
	}
	g.End(t)
	for _, l := range g.Of("view") {
		if l.Value != 1 && l.At.Before(end) {
			t.Errorf("task %d saw view %d: %s", l.Rank, l.Value, l.Text)
		}
	}
}
