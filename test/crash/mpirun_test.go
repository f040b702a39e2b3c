package crash_test

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

func init() { stage.Plays["leaves"] = leaves }

// leaves lets task 0 exit with 0, while the others wait for it, or last: after they have returned.
func leaves(say func(stage.Line), words []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		if t.Rank() == 0 {
			if words[0] == "last" {
				time.Sleep(100 * time.Millisecond)
			}
			os.Exit(0)
		}
		if words[0] == "last" {
			return nil
		}
		return coppice.Barrier(ctx, t)
	}
}

// TestMpirunWithoutRank0: the process that hosts the coordinator is gone, and task 0 never returned:
// mpirun must not end with 0.
func TestMpirunWithoutRank0(t *testing.T) {
	mpirun := needs(t, "mpirun.openmpi", ".ci/install-openmpi installs it")
	dir, err := os.MkdirTemp("", "m") // mpirun kills all when one is killed: then no process is left to remove the job's directory
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("COPPICE_JOBS_DIR", dir)
	for _, when := range []string{"first", "last"} {
		t.Run("exits "+when, func(t *testing.T) {
			_, cmd := stage.Scene{N: 3, Play: []string{"leaves", when}}.Started(t, exec.Command(mpirun, mpirunArgs(3)...), nil)
			if err := cmd.Wait(); err == nil {
				t.Error("exit code 0, though task 0 has never returned")
			}
		})
	}
	t.Run("killed", func(t *testing.T) {
		g, cmd := stage.Scene{N: 3, Settings: reported, Play: []string{"wait", "barrier", "0", "warm"}}.Started(t, exec.Command(mpirun, mpirunArgs(3)...), nil)
		pids := g.Pids(t, "ready")
		if err := posix.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("exit code 0, though task 0 has never returned")
		}
	})
}
