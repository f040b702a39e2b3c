//go:build unix

package control_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// reporting is a process that says what its tasks do.
type reporting struct {
	*recorder
	states []control.TaskState
}

func (r reporting) States() []control.TaskState { return r.states }

// TestStates: who asks gets what processes have answered in time, and the names of those that have not.
func TestStates(t *testing.T) {
	descriptors(t)
	s := serve(t, control.ServerConfig{Size: 3})
	says := []control.TaskState{{Task: 1, Op: "barrier", Number: 3, For: []int{0, 2}, Seconds: 1.5, At: []string{"Barrier at main.go:7"}}}
	for rank, handler := range []control.Handler{newRecorder(), reporting{newRecorder(), says}, reporting{newRecorder(), nil}} {
		c, _, err := control.Join(t.Context(), s.Place(rank, 1), handler, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
	}
	want := []control.ProcessState{{Rank: 0}, {Rank: 1, Answered: true, Tasks: says}, {Rank: 2, Answered: true}}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if got := s.States(ctx); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	got, err := control.States(t.Context(), s.Place(0, 1).Dir) // it waits for as long as it does for any
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v; %v", got, want, err)
	}
	if lines := control.StateLines(got); !slices.Equal(lines, []string{
		"task 1: Barrier at main.go:7; barrier, operation 3; waits 1.5 s for tasks 0, 2",
		"process 0 does not answer: it is stopped, or does not run Go code",
	}) {
		t.Errorf("%q", lines)
	}
}

func TestStateText(t *testing.T) {
	for want, s := range map[string]control.TaskState{
		"task 1: has returned, or does nothing":                                                       {Task: 1},
		"task 1: at a.go:2, b.go:3":                                                                   {Task: 1, At: []string{"a.go:2", "b.go:3"}},
		"task 1: recv, message 2 with tag 7; waits 0.0 s for task 0":                                  {Task: 1, Op: "recv", Number: 2, Tag: 7, For: []int{0}},
		"task 1: scan, operation 2 of a fork or a group; waits 0.0 s":                                 {Task: 1, Op: "scan", Number: 2, Forked: true},
		"task 1: save, operation 2; waits 0.0 s for tasks 1, 2, 3, 4, 5, 6, 7, 8, and 2 others":       {Task: 1, Op: "save", Number: 2, For: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"task 1: AllReduce at a.go:2, Wait at a.go:3; allreduce, operation 1; waits 2.5 s for task 4": {Task: 1, Op: "allreduce", Number: 1, Seconds: 2.5, For: []int{4}, At: []string{"AllReduce at a.go:2", "Wait at a.go:3"}},
	} {
		if got := s.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
