package crash_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/chaos/oracle"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/test/stage"
)

func init() {
	stage.Plays["traced"] = func(tell func(stage.Line), _ []string) coppice.Func {
		return func(ctx context.Context, t *coppice.Task) error {
			right := (t.Rank() + 1) % t.Size()
			left := (t.Rank() + t.Size() - 1) % t.Size()
			for range 200 { // more than either end reports to the other at once
				err := coppice.Send(ctx, t, right, 0, 1)
				if err == nil {
					_, err = coppice.Recv[int](ctx, t, left, 0)
				}
				if err == nil {
					_, err = coppice.AllReduce(ctx, t, 1, coppice.Sum)
				}
				if errors.Is(err, coppice.ErrLost) {
					break
				} else if err != nil {
					return err
				}
			}
			_, _, err := coppice.Agree(ctx, t, 1, plus)
			return err
		}
	}
}

// TestTracesOfKilledJobs checks a job in which a process crashes and which calls all kinds of machines.
func TestTracesOfKilledJobs(t *testing.T) {
	for name, recovery := range map[string]coppice.Recovery{"replay": coppice.Replay, "report": coppice.Report} {
		t.Run(name, func(t *testing.T) {
			s := stage.Scene{N: 4, Play: []string{"traced"}, Kills: []string{"2@allreduce#190/2"}}
			s.Settings.Recovery = recovery
			file := filepath.Join(t.TempDir(), "trace")
			c := s.Config(t, &stage.Stage{N: s.N})
			c.Env = append(c.Env, control.VarTrace+"="+file)
			plan, err := launch.New(c)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := plan.Run(t.Context()); err != nil || len(r.Killed) != 1 || r.Exit != 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r, err := oracle.Check(f)
			if err != nil || r.Views != 1 || r.Arrivals < 700 || r.Credits < 20 || (r.Decisions < 3) != (recovery == coppice.Replay) || (r.Adoptions == 0) != (recovery == coppice.Report) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
