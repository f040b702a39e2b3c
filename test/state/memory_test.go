package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/test/stage"
)

func init() { stage.Plays["memory"] = remembering }

// remembering is the play of tasks that take 9 MiB each in some of the processes, which may use 32, and
// next to nothing in the others. At the end it reports the owners of the tasks.
func remembering(tell func(stage.Line), args []string) coppice.Func {
	var s stage.Settings
	if err := json.Unmarshal([]byte(os.Getenv(stage.JobVar)), &s); err != nil {
		panic(err)
	}
	j := s.Job()
	j.Memory = 32 << 20
	rank := os.Getenv(control.VarRank)
	heavy := slices.Contains(args, rank)
	end := stage.Failure("end", j.Run(s.Context(), func(ctx context.Context, t *coppice.Task) error {
		var ballast []byte
		if heavy && t.Attempt() == 0 {
			ballast = make([]byte, 9<<20)
		}
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		runtime.GC()
		time.Sleep(400 * time.Millisecond) // processes report their memory ten times a second
		for range 2 {
			if err := coppice.Barrier(ctx, t); err != nil {
				var f *coppice.FailedError
				if errors.As(err, &f) {
					tell(stage.Line{What: "lost", Rank: t.Rank(), Kind: stage.Failure("", err).Kind, Tasks: f.Tasks, Text: err.Error()})
				}
				return err
			}
		}
		tell(stage.Line{What: "owners", Rank: t.Rank(), Tasks: t.View().Owners})
		runtime.KeepAlive(ballast)
		return nil
	}))
	end.Rank, end.Pid = stage.Number(rank), os.Getpid()
	tell(end)
	os.Exit(0)
	return nil
}

// TestTasksGoWhereThereIsMemory: processes in which the tasks of a crashed one fit into Job.Memory run
// them again. If there is no such process the tasks are lost, and the error names them.
func TestTasksGoWhereThereIsMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		heavy string // processes
		want  string // the owners of tasks 9 to 11, which process 3 had
	}{
		{"", "[0 1 2]"},
		{"0", "[1 2 1]"},
		{"0 2", "[1 1 1]"},
		{"0 1 2", "lost"},
	} {
		t.Run("heavy "+c.heavy, func(t *testing.T) {
			s := stage.Scene{N: 4, Play: append([]string{"memory"}, strings.Fields(c.heavy)...)}
			s.Tasks, s.Kill = 12, []string{"9@barrier#2/1"}
			x, _ := s.Real(t)
			if c.want != "lost" {
				owners := x.Of("owners")
				if len(owners) != 12 || fmt.Sprint(owners[0].Tasks[9:]) != c.want {
					t.Errorf("owners %v, want %s", owners, c.want)
				}
				return
			}
			lost := x.Of("lost")
			for _, l := range lost {
				if l.Kind != "lost" || fmt.Sprint(l.Tasks) != "[9 10 11]" || !strings.Contains(l.Text, "Memory") {
					t.Errorf("got %+v, want tasks 9 to 11 lost", l)
				}
			}
			if len(lost) != 9 || len(x.Of("end")) != 3 {
				t.Errorf("%d tasks got the error, %d processes returned from Run; want 9, 3", len(lost), len(x.Of("end")))
			}
		})
	}
}

func TestMemoryIsChecked(t *testing.T) {
	job := coppice.Job{Local: 1, Memory: -1}
	err := job.Run(t.Context(), func(context.Context, *coppice.Task) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "memory of -1 bytes; allowed: 1 or more") {
		t.Errorf("got %v", err)
	}
}
