package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/test/stage"
)

func init() {
	stage.Plays["misuse"] = misusing
}

// misuse is what task odd does, and what the others do. What follows is the same
// for all: barriers.
type misuse struct {
	deed, others deed
	returns      bool // the odd one does no more
	kind         string
}

// misuses are the deeds of a play.
var misuses = map[string]misuse{
	"barrier, broadcast": {deed: stage.Barrier, others: broadcastFrom[int](0), kind: "mismatch"},
	"broadcast, barrier": {deed: broadcastFrom[int](0), others: stage.Barrier, kind: "mismatch"},
	"its own broadcast":  {deed: broadcastFrom[int](stage.Odd), others: stage.Barrier, kind: "mismatch"},
	"roots":              {deed: broadcastFrom[int](stage.Odd), others: broadcastFrom[int](0), kind: "mismatch"},
	"other roots":        {deed: broadcastFrom[int](1), others: broadcastFrom[int](stage.Odd), kind: "mismatch"},
	"types":              {deed: broadcastFrom[string](0), others: broadcastFrom[int](0), kind: "mismatch"},
	"types of root":      {deed: broadcastFrom[string](stage.Odd), others: broadcastFrom[int](stage.Odd), kind: "mismatch"},
	"modes":              {deed: corrected(stage.Odd), others: broadcastFrom[int](stage.Odd), kind: "mismatch"},
	"split, barrier":     {deed: split, others: stage.Barrier, kind: "mismatch"},
	"barrier, split":     {deed: stage.Barrier, others: split, kind: "mismatch"},
	"received":           {deed: receive[string], others: send, kind: "mismatch"},

	"returns, barrier":         {deed: nothing, others: stage.Barrier, returns: true, kind: "mismatch"},
	"returns late, barrier":    {deed: late(nothing), others: stage.Barrier, returns: true, kind: "mismatch"},
	"returns, broadcast":       {deed: nothing, others: broadcastFrom[int](stage.Odd), returns: true, kind: "mismatch"},
	"returns late, broadcast":  {deed: late(nothing), others: broadcastFrom[int](stage.Odd), returns: true, kind: "mismatch"},
	"returns, corrected":       {deed: nothing, others: corrected(stage.Odd), returns: true, kind: "mismatch"},
	"returns late, corrected":  {deed: late(nothing), others: corrected(stage.Odd), returns: true, kind: "mismatch"},
	"returns, recv":            {deed: nothing, others: receiveFrom(stage.Odd), returns: true, kind: "mismatch"},
	"returns late, recv":       {deed: late(nothing), others: receiveFrom(stage.Odd), returns: true, kind: "mismatch"},
	"returns, many broadcasts": {deed: nothing, others: often(broadcastFrom[int](0)), returns: true, kind: "mismatch"},

	"fails, barrier":         {deed: stage.Fail, others: stage.Barrier, returns: true, kind: "lost"},
	"fails late, barrier":    {deed: late(stage.Fail), others: stage.Barrier, returns: true, kind: "lost"},
	"fails, broadcast":       {deed: stage.Fail, others: broadcastFrom[int](stage.Odd), returns: true, kind: "lost"},
	"fails late, broadcast":  {deed: late(stage.Fail), others: broadcastFrom[int](stage.Odd), returns: true, kind: "lost"},
	"fails, corrected":       {deed: stage.Fail, others: corrected(stage.Odd), returns: true, kind: "lost"},
	"fails late, corrected":  {deed: late(stage.Fail), others: corrected(stage.Odd), returns: true, kind: "lost"},
	"fails, recv":            {deed: stage.Fail, others: receiveFrom(stage.Odd), returns: true, kind: "lost"},
	"fails late, recv":       {deed: late(stage.Fail), others: receiveFrom(stage.Odd), returns: true, kind: "lost"},
	"fails, many broadcasts": {deed: stage.Fail, others: often(broadcastFrom[int](0)), returns: true, kind: "lost"},

	"root out of range":  {deed: broadcastFrom[int](99), others: broadcastFrom[int](0), returns: true, kind: "lost"},
	"unsendable":         {deed: broadcastFrom[chan int](stage.Odd), others: broadcastFrom[int](stage.Odd), returns: true, kind: "lost"},
	"message to nobody":  {deed: sendTo(99), others: receiveFrom(stage.Odd), returns: true, kind: "lost"},
	"unsendable message": {deed: sendChannel, others: receiveFrom(stage.Odd), returns: true, kind: "lost"},
	"tag below 0":        {deed: badTag, others: receiveFrom(stage.Odd), returns: true, kind: "lost"},
}

// brief are those of misuses that processes try in short mode.
var brief = []string{"roots", "types of root", "split, barrier", "received", "returns late, barrier", "fails, broadcast"}

type deed = func(ctx context.Context, t *coppice.Task) error

func nothing(context.Context, *coppice.Task) error { return nil }

func broadcastFrom[T any](root int) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		var v T
		_, err := coppice.Broadcast(ctx, t, v, coppice.Root(root))
		return err
	}
}

func corrected(root int) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Broadcast(ctx, t, 1, coppice.Root(root), coppice.Corrected(coppice.Checked()))
		return err
	}
}

func split(ctx context.Context, t *coppice.Task) error {
	_, err := t.Split(ctx, 1, 1)
	return err
}

func send(ctx context.Context, t *coppice.Task) error { return coppice.Send(ctx, t, stage.Odd, 1, 7) }

func sendTo(to int) deed {
	return func(ctx context.Context, t *coppice.Task) error { return coppice.Send(ctx, t, to, 1, 7) }
}

func sendChannel(ctx context.Context, t *coppice.Task) error {
	return coppice.Send(ctx, t, 0, 1, make(chan int))
}

func badTag(ctx context.Context, t *coppice.Task) error { return coppice.Send(ctx, t, 0, -1, 7) }

func receive[T any](ctx context.Context, t *coppice.Task) error {
	_, err := coppice.Recv[T](ctx, t, 0, 1)
	return err
}

func receiveFrom(from int) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Recv[int](ctx, t, from, 1)
		return err
	}
}

func late(f deed) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		time.Sleep(250 * time.Millisecond) // so that the others have asked before
		return f(ctx, t)
	}
}

func often(f deed) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		for range 1000 {
			if err := f(ctx, t); err != nil {
				return err
			}
		}
		return nil
	}
}

// misusing is a play in which one task does something else than the others, who
// go on with barriers; they tell the first error.
func misusing(tell func(stage.Line), args []string) coppice.Func {
	misuse, ok := misuses[args[0]]
	if !ok {
		panic(args[0])
	}
	return func(ctx context.Context, t *coppice.Task) error {
		if t.Attempt() > 0 { // its process has left after the end, of which this one has yet to hear
			return nil
		}
		tell := stage.Telling(tell, t)
		f := misuse.others
		if t.Rank() == stage.Odd {
			f = misuse.deed
		}
		err := f(ctx, t)
		if t.Rank() == stage.Odd && misuse.returns {
			tell(stage.Failure("error", err))
			return err
		}
		for began := time.Now(); err == nil && time.Since(began) < 5*time.Second; time.Sleep(time.Millisecond) {
			err = coppice.Barrier(ctx, t) // until the news is here
		}
		tell(stage.Failure("error", err))
		return err
	}
}

// TestMisuseIsAnErrorEverywhere tries all misuses, in Local and in processes,
// with one task in a process and with several.
func TestMisuseIsAnErrorEverywhere(t *testing.T) {
	for name, misuse := range misuses {
		t.Run(strings.ReplaceAll(name, ",", ""), func(t *testing.T) {
			t.Parallel()
			for _, tasks := range []int{4, 6} {
				s := stage.Scene{N: 4, Play: []string{"misuse", name}}
				if tasks != s.N {
					s.N, s.Tasks = 2, tasks
				}
				x, err := s.Local(t)
				if err == nil {
					t.Error("Local returns no error")
				}
				checkMisuse(t, fmt.Sprint("Local, ", tasks, " tasks"), x, tasks, misuse.returns, misuse.kind)
				if !extent.Full() && (tasks != 4 || !slices.Contains(brief, name)) {
					continue
				}
				x, report := s.Real(t)
				if report.Exit == 0 {
					t.Error("coppice run ends well")
				}
				checkMisuse(t, fmt.Sprint("processes, ", tasks, " tasks"), x, tasks, misuse.returns, misuse.kind)
			}
		})
	}
}

func checkMisuse(t *testing.T, where string, x *stage.Script, tasks int, returns bool, kind string) {
	t.Helper()
	errs := x.Of("error")
	if got := stage.Ranks(errs); !slices.Equal(got, stage.Without(tasks)) {
		t.Fatalf("%s: told by %v", where, got)
	}
	for _, l := range errs {
		if returns && l.Rank == stage.Odd {
			continue
		}
		if l.Kind != kind || !slices.Contains(l.Tasks, stage.Odd) {
			t.Errorf("%s: task %d: %s, tasks %v: %s", where, l.Rank, l.Kind, l.Tasks, l.Text)
		}
	}
}

// TestLastOneWaits has one task that waits while all others have returned.
func TestLastOneWaits(t *testing.T) {
	for name, f := range map[string]deed{
		"barrier": stage.Barrier, "broadcast": broadcastFrom[int](0), "corrected": corrected(0), "recv": receiveFrom(1), "split": split,
	} {
		t.Run(name, func(t *testing.T) {
			err := coppice.Local(stage.Patience(t), 4, func(ctx context.Context, task *coppice.Task) error {
				if task.Rank() != stage.Odd {
					return nil
				}
				err := f(ctx, task)
				if e := (*coppice.FailedError)(nil); !errors.Is(err, coppice.ErrMismatch) || !errors.As(err, &e) || len(e.Tasks) == 0 || e.Tasks[0] == stage.Odd {
					t.Errorf("%v", err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReceivedInTwoPlaces has two calls wait for one message.
func TestReceivedInTwoPlaces(t *testing.T) {
	err := coppice.Local(stage.Patience(t), 2, func(ctx context.Context, task *coppice.Task) error {
		if task.Rank() == 0 {
			_, err := coppice.Recv[int](ctx, task, 1, 1)
			return err
		}
		own, cancel := context.WithCancel(ctx)
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := coppice.Recv[int](own, task, 0, 1)
				errs <- err
			}()
		}
		first := <-errs
		cancel()
		if second := <-errs; first == nil || !strings.Contains(first.Error(), "is under way") || !errors.Is(second, context.Canceled) {
			t.Errorf("%v, %v", first, second)
		}
		return coppice.Send(ctx, task, 0, 1, 1)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestMutualWait has two tasks that wait for each other as the root of a
// broadcast.
func TestMutualWait(t *testing.T) {
	err := coppice.Local(stage.Patience(t), 2, func(ctx context.Context, task *coppice.Task) error {
		_, err := coppice.Broadcast(ctx, task, 1, coppice.Root(1-task.Rank()))
		if !errors.Is(err, coppice.ErrMismatch) {
			t.Errorf("task %d: %v", task.Rank(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestBadJobs passes settings that make no sense.
func TestBadJobs(t *testing.T) {
	good := func(context.Context, *coppice.Task) error { return nil }
	for want, j := range map[string]*coppice.Job{
		"-1 local processes":     {Local: -1},
		"100000 local processes": {Local: 100_000},
		"-1 tasks":               {Local: 2, Tasks: -1},
		"no fewer tasks than":    {Local: 2, Tasks: 1},
		"log of -1 bytes":        {Local: 1, LogBytes: -1},
		"silence of -1s":         {Local: 1, Silence: -time.Second},
	} {
		if err := j.Run(stage.Patience(t), good); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %s", err, want)
		}
	}
	for want, kill := range map[string]string{"kill \"nobody\"": "nobody", "after a time; allowed": "0@1s", "kill of task 7 of 2": "7@barrier#1"} {
		if err := coppice.Local(coppicetest.WithKills(stage.Patience(t), kill), 2, good); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %s", err, want)
		}
	}
	if err := coppice.Local(stage.Patience(t), 2, nil); err == nil {
		t.Error("no function, and no error")
	}
}

// TestEverybodyIsRoot has every task broadcast from itself and return: each has
// its value at once, and nobody waits for anybody.
func TestEverybodyIsRoot(t *testing.T) {
	for _, mode := range []coppice.Option{coppice.Plain(), coppice.Corrected(coppice.Checked())} {
		err := coppice.Local(stage.Patience(t), 4, func(ctx context.Context, task *coppice.Task) error {
			_, err := coppice.Broadcast(ctx, task, 1, coppice.Root(task.Rank()), mode)
			return err
		})
		if !errors.Is(err, coppice.ErrMismatch) {
			t.Error(err)
		}
	}
}
