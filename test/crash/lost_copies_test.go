package crash_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

func init() { stage.Plays["march"], stage.Plays["draw"] = marching, drawing }

// marching saves in each round, and reports the round, for ever.
func marching(tell func(stage.Line), _ []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		for round := 0; ; round++ {
			if err := coppice.Save(ctx, t, &round); err != nil {
				return err
			}
			stage.Telling(tell, t)(stage.Line{What: "round", Value: round})
			if _, err := coppice.AllReduce(ctx, t, round, coppice.Sum); err != nil {
				return err
			}
		}
	}
}

// drawing draws a value in task 1, which spreads to other tasks. Then it waits for a file, and at the
// end reports the values of all tasks.
func drawing(tell func(stage.Line), args []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		say := stage.Telling(tell, t)
		v, at, err := 0, 1, error(nil)
		if t.Rank() == at {
			v, err = coppice.Once(ctx, t, func(context.Context) (int, error) {
				say(stage.Line{What: "drawn"})
				return os.Getpid(), nil
			})
		}
		for _, next := range strings.Fields(args[1]) {
			if err == nil && t.Rank() == at {
				err = coppice.Send(ctx, t, stage.Number(next), 0, v)
			} else if err == nil && t.Rank() == stage.Number(next) {
				v, err = coppice.Recv[int](ctx, t, at, 0)
			}
			at = stage.Number(next)
		}
		if err != nil {
			return err
		}
		for say(stage.Line{What: "waits", Value: v}); !exists(args[0]); {
			time.Sleep(time.Millisecond)
		}
		all, err := coppice.AllGather(ctx, t, v)
		if err != nil {
			return err
		}
		say(stage.Line{What: "all", Text: fmt.Sprint(all), Value: v})
		return nil
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// killAtOnce kills several processes, none of which does anything more when the first dies.
func killAtOnce(t *testing.T, pids ...int) {
	t.Helper()
	for _, signal := range []syscall.Signal{posix.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range pids {
			if err := posix.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// lost reports whether a task got an error that says that task is lost, and why.
func lost(g *stage.Stage, task int, why string) bool {
	return slices.ContainsFunc(g.Of("end"), func(l stage.Line) bool {
		return l.Kind == "lost" && slices.Contains(l.Tasks, task) && strings.Contains(l.Text, why)
	})
}

// TestLostCopies: when all processes that hold a task's state crash at once, the task is lost, and the
// error names it. It never continues from an older state.
func TestLostCopies(t *testing.T) {
	const victim, copies = 1, 2
	s := stage.Scene{N: 6, Play: []string{"march"}}
	s.Copies = copies
	g := s.Begin(t)
	g.Await(t, "round", 60)
	pids := g.Pids(t, "round")
	killAtOnce(t, pids[victim], pids[victim+1], pids[victim+2]) // on the ring
	report := g.End(t)
	if report.Exit == 0 {
		t.Error("the job ended well")
	}
	for _, l := range g.Of("round") {
		if l.Rank == victim && l.Pid != pids[victim] {
			t.Errorf("task %d went on in round %d", victim, l.Value)
		}
	}
	if !lost(g, victim, "no process has its state of epoch") {
		t.Errorf("%v", g.Of("end"))
	}
}

// TestLostValues: when all processes that hold a value of Once crash at once, its function is called
// again if no survivor has anything that follows from the value. Otherwise the task is lost.
func TestLostValues(t *testing.T) {
	const victim, copies = 1, 2
	for _, way := range []string{"", "2 3", "5", "3 2 0"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/go"
			s := stage.Scene{N: 6, Play: []string{"draw", file, way}}
			s.Copies = copies
			g := s.Begin(t)
			pids := g.Pids(t, "waits")
			killAtOnce(t, pids[victim], pids[victim+1], pids[victim+2]) // on the ring
			if err := os.WriteFile(file, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			report := g.End(t)
			calls := len(g.Of("drawn"))
			if way == "5" || way == "3 2 0" {
				if report.Exit == 0 || calls != 1 || !lost(g, victim, "no process has what its once returned") {
					t.Errorf("%d calls; %v", calls, g.Of("end"))
				}
				return
			}
			all := g.Of("all")
			if report.Exit != 0 || calls != 2 || len(all) < s.N {
				t.Fatalf("exit %d, %d calls, %d ends: %s", report.Exit, calls, len(all), report.Cause)
			}
			for _, l := range all {
				if l.Text != all[0].Text || slices.Contains(strings.Fields(strings.Trim(l.Text, "[]")), fmt.Sprint(pids[victim])) {
					t.Errorf("task %d has %s, task %d %s; the process that died was %d", l.Rank, l.Text, all[0].Rank, all[0].Text, pids[victim])
				}
			}
		})
	}
}
