package crash_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/stage"
)

func init() { stage.Plays["lasting"] = lasting }

// lasting is the play of tasks that broadcast until a file of the given name exists, in every attempt.
// Task 1 looks for the file and must not be run again.
func lasting(tell func(stage.Line), args []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		stage.Telling(tell, t)(stage.Line{What: "begin", Value: t.Attempt()})
		for {
			_, missing := os.Stat(args[0])
			if more, err := coppice.Broadcast(ctx, t, missing != nil, coppice.Root(1)); err != nil || !more {
				return err
			}
			if t.Attempt() == 0 { // an attempt that runs again catches up
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

// TestKillAfterATimeIsOfTheOwner: a kill after a time ends the process that owns the task then, which
// need not be the one that began it.
func TestKillAfterATimeIsOfTheOwner(t *testing.T) {
	t.Parallel()
	var killed []int
	for after := time.Second; after < 20*time.Second; after *= 2 { // until task 3 has been taken over by then
		// Process 0 takes over task 3, being the lowest of those with one task each.
		if killed = killTwice(t, after); slices.Equal(killed, []int{0, 3}) {
			return
		}
	}
	t.Errorf("killed %v; want 0 and 3", killed)
}

// killTwice kills the owner of task 3 early, and again after a time. It returns the processes that it
// killed.
func killTwice(t *testing.T, after time.Duration) []int {
	t.Helper()
	enough := filepath.Join(t.TempDir(), "enough")
	g := stage.Scene{N: 4, Play: []string{"lasting", enough}, Kills: []string{"3@200ms", fmt.Sprint("3@", after)}}.Begin(t)
	killed := func() bool {
		return slices.ContainsFunc(g.Of("begin"), func(l stage.Line) bool { return l.Rank == 3 && l.Value == 2 })
	}
	for late := time.After(after + 3*time.Second); !killed(); { // or the second kill hit no process
		next := g.Next()
		if killed() {
			break
		}
		select {
		case <-next:
			continue
		case <-late:
		}
		break
	}
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	report := g.End(t)
	if report.Exit != 0 {
		t.Errorf("exit %d, %s; want a good end", report.Exit, report.Cause)
	}
	return slices.Sorted(slices.Values(report.Killed))
}
