package programs_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/test/stage"
)

// Programs that breach a duty. Task 1 crashes in its second barrier and is run again; then the breach
// must come to light.

// breach is such a program: what it does before the barrier.
type breach struct {
	name string
	do   func(ctx context.Context, t *coppice.Task) error
	want string // part of the error
	kill string // where task 1 crashes, if not in the second barrier
}

func (b breach) kills() []string { return []string{cmp.Or(b.kill, "1@barrier#2/1")} }

// breaches have the names of what they do.
var breaches = []breach{
	{"clock", func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.AllReduce(ctx, t, time.Now().UnixNano(), coppice.Sum)
		return err
	}, "task 1 was run again, and sends task 0 in operation 1 of its group, allreduce, other data than before", ""},
	{"map order", func(ctx context.Context, t *coppice.Task) error {
		words := map[int]bool{}
		for i := range 100 {
			words[i] = true
		}
		var order []int
		for w := range words {
			order = append(order, w)
		}
		_, err := coppice.Gather(ctx, t, order)
		return err
	}, "task 1 was run again, and sends task 0 in operation 1 of its group, gather, other data than before", ""},
	{"other length", func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.AllGather(ctx, t, make([]byte, 100<<10+t.Attempt()))
		return err
	}, "task 1 was run again, and sends task", ""},
	{"other value of a broadcast", func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Broadcast(ctx, t, t.Attempt(), coppice.Root(1))
		return err
	}, "task 1 was run again, and sends task", ""},
	{"other value of a large broadcast", func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Broadcast(ctx, t, slices.Repeat([]int{t.Attempt()}, 1<<18), coppice.Root(1))
		return err
	}, "task 1 was run again, and sends task", ""},
	{"other value of a corrected broadcast", func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Broadcast(ctx, t, slices.Repeat([]int{t.Attempt()}, 1000), coppice.Root(1), coppice.Corrected(coppice.Checked()))
		return err
	}, "task 1 was run again, and sends task", ""},
	{"other value in the midst of a corrected broadcast", func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Broadcast(ctx, t, slices.Repeat([]int{t.Attempt()}, 1<<12), coppice.Root(1), coppice.Corrected(coppice.Checked()))
		return err
	}, "task 1 was run again, and sends task", "1@broadcast#1/3"},
	{"other message", func(ctx context.Context, t *coppice.Task) error {
		return pass(ctx, t, t.Attempt())
	}, "task 1 was run again, and sends task 2 as message 3 with tag 7 other data than before", ""},
	{"other large message", func(ctx context.Context, t *coppice.Task) error {
		return pass(ctx, t, slices.Repeat([]int{t.Attempt()}, 1<<15))
	}, "task 1 was run again, and sends task 2 as message 3 with tag 7 other data than before", ""},
	{"other operation", func(ctx context.Context, t *coppice.Task) error {
		if t.Attempt() == 0 {
			_, err := coppice.AllReduce(ctx, t, 1, coppice.Sum)
			return err
		}
		return coppice.Barrier(ctx, t)
	}, "task 1 was run again", ""},
	{"other operation long ago", func(ctx context.Context, t *coppice.Task) error {
		if _, err := leaf(ctx, t); err != nil {
			return err
		}
		for range 40 { // more than are remembered in full
			if _, err := coppice.AllReduce(ctx, t, 1, coppice.Sum); err != nil {
				return err
			}
		}
		return nil
	}, "task 0 has called gather as operation 1 of its group, task 1 calls broadcast from 0; task 1 was run again", ""},
	{"other type", func(ctx context.Context, t *coppice.Task) (err error) {
		if t.Attempt() == 0 {
			_, err = coppice.AllReduce(ctx, t, int32(1), coppice.Sum)
		} else {
			_, err = coppice.AllReduce(ctx, t, float32(1), coppice.Sum)
		}
		return err
	}, "task 1 was run again", ""},
	{"lent memory", func(ctx context.Context, t *coppice.Task) error {
		lent := make([]int, 1000)
		if _, err := coppice.Broadcast(ctx, t, lent, coppice.Shared()); err != nil {
			return err
		}
		if err := pass(ctx, t, 0); err != nil { // now all have it
			return err
		}
		if t.Rank() == 0 {
			lent[999] = 1
		}
		return nil
	}, "task 0 has changed memory that it lent with Shared in operation 1 of its group, broadcast; task 1 was run again and needs it", ""},
}

// pass sends three values around the ring.
func pass[T any](ctx context.Context, t *coppice.Task, last T) error {
	var zero T
	n := t.Size()
	for i := range 3 {
		v := zero
		if i == 2 {
			v = last
		}
		if err := coppice.Send(ctx, t, (t.Rank()+1)%n, 7, v); err != nil {
			return err
		}
		if _, err := coppice.Recv[T](ctx, t, (t.Rank()+n-1)%n, 7); err != nil {
			return err
		}
	}
	return nil
}

// leaf sends a value in the first attempt, and waits for one when it is run again.
func leaf(ctx context.Context, t *coppice.Task) (int, error) {
	if t.Attempt() == 0 {
		_, err := coppice.Gather(ctx, t, 1)
		return 0, err
	}
	return coppice.Broadcast(ctx, t, 1)
}

func (b breach) run(ctx context.Context, t *coppice.Task) error {
	err := b.do(ctx, t)
	for range 2 { // after the first, all have what was sent
		if err == nil {
			err = coppice.Barrier(ctx, t)
		}
	}
	return err
}

func init() { stage.Plays["breach"] = breaching }

// breaching is the play of a breach, in a process with Check.
func breaching(tell func(stage.Line), args []string) coppice.Func {
	var s stage.Settings
	if err := json.Unmarshal([]byte(os.Getenv(stage.JobVar)), &s); err != nil {
		panic(err)
	}
	j := s.Job()
	j.Check = true
	i := slices.IndexFunc(breaches, func(b breach) bool { return b.name == args[0] })
	end := stage.Failure("end", j.Run(s.Context(), breaches[i].run))
	end.Rank, end.Pid = stage.Number(os.Getenv(control.VarRank)), os.Getpid()
	tell(end)
	os.Exit(0)
	return nil
}

// TestBreachesComeToLight: a program that behaves differently when it is run again ends with
// ErrDiverged, which names the task and what it did.
func TestBreachesComeToLight(t *testing.T) {
	for _, b := range breaches {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			var told atomic.Bool
			job := coppice.Job{Local: 3}
			err := job.Run(coppicetest.WithKills(limited(t), b.kills()...), func(ctx context.Context, t *coppice.Task) error {
				err := b.run(ctx, t)
				if t.Attempt() > 0 && (err == nil || errors.Is(err, coppice.ErrDiverged)) { // it may end before it learns of the breach
					told.Store(true)
				}
				return err
			})
			if !errors.Is(err, coppice.ErrDiverged) || !strings.Contains(err.Error(), b.want) {
				t.Errorf("got %v, want ErrDiverged with %q", err, b.want)
			}
			if !told.Load() || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the task that was run again was told something else, or hangs: %v", err)
			}
		})
	}
}

// TestBreachesComeToLightInProcesses is the same for processes, in jobs with Check.
func TestBreachesComeToLightInProcesses(t *testing.T) {
	for _, b := range breaches {
		t.Run(b.name, func(t *testing.T) {
			if b.kill != "" {
				t.Skip("what is sent before there is a connection, nobody sees: among processes this breach cannot be found; TestBreachesComeToLight runs it in memory")
			}
			s := stage.Scene{N: 3, Play: []string{"breach", b.name}}
			s.Kill = b.kills()
			x, _ := s.Real(t)
			ends := x.Of("end")
			said := slices.ContainsFunc(ends, func(l stage.Line) bool {
				return strings.Contains(l.Text, b.want)
			})
			if len(ends) != 2 || !said {
				t.Errorf("got %v, want two with %q", ends, b.want)
			}
		})
	}
}

// A task may change what it received, which in Local is in the memory that was sent: an attempt that
// runs it again receives what was sent.
func TestReceivedMayBeChanged(t *testing.T) {
	job := coppice.Job{Local: 3}
	if err := job.Run(coppicetest.WithKills(limited(t), "1@barrier#1/1"), func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() == 0 {
			if err := coppice.Send(ctx, t, 1, 0, make([]int, 1000)); err != nil {
				return err
			}
		}
		if t.Rank() == 1 {
			got, err := coppice.Recv[[]int](ctx, t, 0, 0)
			if err != nil {
				return err
			}
			if got[0] != 0 {
				return errors.New("wrong")
			}
			got[0] = 1
		}
		return coppice.Barrier(ctx, t)
	}); err != nil {
		t.Error(err)
	}
}
