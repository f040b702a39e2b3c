package crash_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

func init() {
	stage.Plays["homeless"] = homeless
}

// homeless reports the job's directory and waits for a file; then every task sends to every other one,
// with which it has no connection yet.
func homeless(tell func(stage.Line), args []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		stage.Telling(tell, t)(stage.Line{What: "ready", Text: os.Getenv(control.VarDir)})
		_, err := coppice.Once(ctx, t, func(context.Context) (bool, error) {
			for {
				if _, err := os.Stat(args[0]); err == nil {
					return true, nil
				}
				time.Sleep(time.Millisecond)
			}
		})
		if err != nil {
			return err
		}
		parts := make([]int, t.Size())
		for to := range parts {
			parts[to] = 10*t.Rank() + to
		}
		parts, err = coppice.AllToAll(ctx, t, parts)
		if err != nil {
			return err
		}
		for from, part := range parts {
			if part != 10*from+t.Rank() {
				return fmt.Errorf("got %d from task %d", part, from)
			}
		}
		return nil
	}
}

// TestJobSurvivesTheLossOfItsDirectory: the job ends well, even if a process crashes afterwards.
func TestJobSurvivesTheLossOfItsDirectory(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(map[bool]string{false: "all live", true: "one dies"}[kill], func(t *testing.T) {
			goes := filepath.Join(t.TempDir(), "go")
			g := stage.Scene{N: 4, Play: []string{"homeless", goes}}.Begin(t)
			pids := g.Pids(t, "ready")
			dir := g.Of("ready")[0].Text
			for until := time.Now().Add(stage.PatienceTime); ; { // the job may make a file there meanwhile
				if err := os.RemoveAll(dir); err == nil {
					break
				} else if time.Now().After(until) {
					t.Fatal(err)
				}
			}
			if kill {
				for until := time.Now().Add(stage.PatienceTime); ; time.Sleep(time.Millisecond) {
					if _, err := os.Stat(filepath.Join(dir, "2.1.record")); err == nil {
						break
					} else if time.Now().After(until) {
						t.Fatal(err)
					}
				}
				posix.Kill(pids[2], syscall.SIGKILL)
			}
			if err := os.WriteFile(goes, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if r := g.End(t); r.Exit != 0 || len(r.Lost) != 0 || kill != (len(r.Killed) == 1) {
				t.Errorf("exit %d, killed %v, lost %v: %s", r.Exit, r.Killed, r.Lost, r.Cause)
			}
		})
	}
}
