package crash_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// Every operation goes on without the tasks that crash in it.
func TestWithoutLost(t *testing.T) {
	for _, kills := range [][]string{
		nil,
		{"2@allreduce#1"},
		{"2@allreduce#1/1", "4@gather#1"},
		{"1@alltoall#1/2", "2@allgather#1/1", "3@scatter#1", "4@barrier#1"},
	} {
		var o outcomes
		job := coppice.Job{Local: 5, Recovery: coppice.Report}
		err := job.Run(coppicetest.WithKills(t.Context(), kills...), func(ctx context.Context, task *coppice.Task) error {
			for i, f := range withoutLostOperations {
				text, err := f(ctx, task)
				if err != nil {
					return fmt.Errorf("operation %d: %w", i, err)
				}
				o.add(i, task.Rank(), text)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("kills %v: %v", kills, err)
		}
		var dead []int
		want := 31 // the live tasks, as bits
		for _, k := range kills {
			dead = append(dead, int(k[0]-'0'))
			want &^= 1 << (k[0] - '0')
		}
		o.forget(dead)
		o.check(t)
		if got := o.all[len(o.all)-1][0]; got != fmt.Sprint(want) {
			t.Errorf("kills %v: the last sum is %s; want %d", kills, got, want)
		}
		if got := o.all[len(o.all)-2][0]; kills != nil && strings.Count(got, "0") < len(dead) {
			t.Errorf("kills %v: gathered %s of which those of the dead must be 0", kills, got)
		}
	}
}

var withoutLostOperations = []func(ctx context.Context, t *coppice.Task) (string, error){
	func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.AllReduce(ctx, t, 1<<t.Rank(), coppice.Sum, coppice.WithoutLost())
		return fmt.Sprint(v), err
	},
	func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.Gather(ctx, t, t.Rank()+1, coppice.WithoutLost())
		if t.Rank() == 0 && len(v) != 5 {
			err = errors.Join(err, fmt.Errorf("gathered %v", v))
		}
		return "", err
	},
	func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.Scatter(ctx, t, []int{10, 11, 12, 13, 14}, coppice.WithoutLost())
		if err == nil && v != 10+t.Rank() {
			err = fmt.Errorf("scattered %d to %d", v, t.Rank())
		}
		return "", err
	},
	func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.AllToAll(ctx, t, []int{10, 11, 12, 13, 14}, coppice.WithoutLost())
		if err == nil && slices.ContainsFunc(v, func(x int) bool { return x != 0 && x != 10+t.Rank() }) {
			err = fmt.Errorf("task %d got %v", t.Rank(), v)
		}
		return "", err
	},
	func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.ReduceScatter(ctx, t, []int{10, 11, 12, 13, 14}, coppice.Sum, coppice.WithoutLost())
		if err == nil && (v == 0 || v%(10+t.Rank()) != 0) {
			err = fmt.Errorf("task %d got the sum %d", t.Rank(), v)
		}
		return "", err
	},
	func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.ExScan(ctx, t, 1, coppice.Sum, coppice.WithoutLost())
		if err == nil && v > t.Rank() {
			err = fmt.Errorf("%d tasks before task %d", v, t.Rank())
		}
		return "", err
	},
	func(ctx context.Context, t *coppice.Task) (string, error) {
		return "", coppice.Barrier(ctx, t, coppice.WithoutLost())
	},
	func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.Broadcast(ctx, t, t.Rank()+7, coppice.WithoutLost())
		return fmt.Sprint(v), err
	},
	func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.AllGather(ctx, t, t.Rank()+1, coppice.WithoutLost())
		return fmt.Sprint(v), err
	},
	func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.AllReduceFunc(ctx, t, 1<<t.Rank(), plus, coppice.WithoutLost())
		return fmt.Sprint(v), err
	},
}

func TestWithoutLostRoot(t *testing.T) {
	job := coppice.Job{Local: 4, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(t.Context(), "2@barrier#1"), func(ctx context.Context, task *coppice.Task) error {
		if err := coppice.Barrier(ctx, task, coppice.WithoutLost()); err != nil {
			return err
		}
		_, err := coppice.Reduce(ctx, task, 1, coppice.Sum, coppice.Root(2), coppice.WithoutLost())
		var failed *coppice.FailedError
		if !errors.Is(err, coppice.ErrLost) || !errors.As(err, &failed) || !slices.Equal(failed.Tasks, []int{2}) {
			return fmt.Errorf("the root is dead: %v", err)
		}
		n, err := coppice.Reduce(ctx, task, 1, coppice.Sum, coppice.Root(3), coppice.WithoutLost())
		if task.Rank() == 3 && n != 3 {
			return fmt.Errorf("%d are left", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Operations without a root go on without task 0.
func TestWithoutLostTask0(t *testing.T) {
	job := coppice.Job{Local: 4, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(t.Context(), "0@allreduce#2"), func(ctx context.Context, task *coppice.Task) error {
		for round := range 3 {
			n, err := coppice.AllReduce(ctx, task, 1, coppice.Sum, coppice.WithoutLost())
			if err != nil || round > 0 && n != 3 {
				return fmt.Errorf("round %d: %d, %v", round, n, err)
			}
		}
		all, err := coppice.AllGather(ctx, task, task.Rank(), coppice.WithoutLost())
		if !slices.Equal(all, []int{0, 1, 2, 3}) {
			return fmt.Errorf("%v, %v", all, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The number of parts is that of all tasks, whichever are lost.
func TestWithoutLostWantsAllParts(t *testing.T) {
	job := coppice.Job{Local: 4, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(t.Context(), "2@barrier#1"), func(ctx context.Context, task *coppice.Task) error {
		if err := coppice.Barrier(ctx, task, coppice.WithoutLost()); err != nil {
			return err
		}
		if _, err := coppice.AllToAll(ctx, task, []int{1, 2, 3}, coppice.WithoutLost()); err == nil {
			return errors.New("3 parts for 4 tasks are taken")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWithoutLostIsForReport(t *testing.T) {
	err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
		return coppice.Barrier(ctx, task, coppice.WithoutLost())
	})
	if err == nil || !strings.Contains(err.Error(), "allowed: with Report") {
		t.Error(err)
	}
}

// A lost task makes the job fail, even if no other task needed it any more.
func TestLostTaskFailsTheJob(t *testing.T) {
	job := coppice.Job{Local: 3, LogBytes: 1 << 10, Logger: slog.New(slog.DiscardHandler)}
	err := job.Run(coppicetest.WithKills(t.Context(), "2@recv#1"), func(ctx context.Context, task *coppice.Task) error {
		for range 100 {
			if _, err := coppice.AllReduce(ctx, task, 1, coppice.Sum); err != nil {
				return err
			}
		}
		if task.Rank() == 2 {
			_, err := coppice.Recv[int](ctx, task, 0, 0) // nobody sends it
			return err
		}
		return nil
	})
	var failed *coppice.FailedError
	if !errors.Is(err, coppice.ErrLost) || !errors.As(err, &failed) || !slices.Equal(failed.Tasks, []int{2}) {
		t.Errorf("the job ends with %v", err)
	}
}
