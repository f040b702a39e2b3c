package coppice_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/test/stage"
)

func TestLocalMessages(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		err := coppice.Local(stage.Patience(t), n, func(ctx context.Context, task *coppice.Task) error {
			next, last := (task.Rank()+1)%n, (task.Rank()+n-1)%n
			for i := range 1000 {
				if err := coppice.Send(ctx, task, next, 3, []int{task.Rank(), i}); err != nil {
					return err
				}
				got, err := coppice.Recv[[]int](ctx, task, last, 3)
				if err != nil {
					return err
				}
				if got[0] != last || got[1] != i {
					return fmt.Errorf("got %v", got)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(n, err)
		}
	}
}

func TestLocalBroadcast(t *testing.T) {
	modes := map[string][]coppice.Option{
		"plain":         {coppice.Plain()},
		"along a tree":  {coppice.Along(coppice.Optimal())},
		"checked":       {coppice.Corrected(coppice.Checked())},
		"optimized":     {coppice.Corrected(coppice.Optimized(1)), coppice.Along(coppice.Lame(2))},
		"gossip":        {coppice.Corrected(coppice.Checked()), coppice.Along(coppice.Gossip(4))},
		"proof":         {coppice.Corrected(coppice.FailureProof(1))},
		"delayed":       {coppice.Corrected(coppice.Delayed(100 * time.Microsecond))},
		"opportunistic": {coppice.Corrected(coppice.Opportunistic(2)), coppice.Along(coppice.KAry(3).InOrder())},
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{3, 7, 16} {
				err := coppice.Local(stage.Patience(t), n, func(ctx context.Context, task *coppice.Task) error {
					for i := range 50 {
						v := "nothing"
						if task.Rank() == i%n {
							v = fmt.Sprint("value ", i)
						}
						v, err := coppice.Broadcast(ctx, task, v, append(mode, coppice.Root(i%n))...)
						if err != nil {
							return err
						}
						if v != fmt.Sprint("value ", i) {
							return fmt.Errorf("round %d: %q", i, v)
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(n, err)
				}
			}
		})
	}
}

func TestLocalBarrier(t *testing.T) {
	const n = 9
	var in atomic.Int64
	err := coppice.Local(stage.Patience(t), n, func(ctx context.Context, task *coppice.Task) error {
		for i := range int64(200) {
			in.Add(1)
			if err := coppice.Barrier(ctx, task); err != nil {
				return err
			}
			if got := in.Load(); got < (i+1)*n {
				return fmt.Errorf("left barrier %d when %d had entered", i, got)
			}
			if err := coppice.Barrier(ctx, task); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkLocalBarrier(b *testing.B) {
	for _, n := range []int{2, 4, 8, 16, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			err := coppice.Local(context.Background(), n, func(ctx context.Context, task *coppice.Task) error {
				for range b.N {
					if err := coppice.Barrier(ctx, task); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkOperationAlone is what an operation takes besides messages: in a job of one task there are none.
func BenchmarkOperationAlone(b *testing.B) {
	err := coppice.Local(context.Background(), 1, func(ctx context.Context, t *coppice.Task) error {
		v := make([]byte, 8)
		for name, call := range map[string]func() error{
			"barrier":   func() error { return coppice.Barrier(ctx, t) },
			"allreduce": func() error { _, err := coppice.AllReduce(ctx, t, 7, coppice.Sum); return err },
			"broadcast": func() error { _, err := coppice.Broadcast(ctx, t, v, coppice.Shared()); return err },
		} {
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := call(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// TestPartsWithoutBytesAreNotAbsent: what a task that is run again sends does not depend on the
// memory that its first attempt had at hand.
func TestPartsWithoutBytesAreNotAbsent(t *testing.T) {
	job := coppice.Job{Local: 4, Tasks: 6, Check: true}
	err := job.Run(coppicetest.WithKills(t.Context(), "2@allreduce#2"), func(ctx context.Context, t *coppice.Task) error {
		var round int
		for ; round < 2; round++ {
			if err := coppice.Save(ctx, t, &round); err != nil {
				return err
			}
			if round == 1 {
				if _, err := coppice.AllToAll(ctx, t, make([][]float64, t.Size())); err != nil {
					return err
				}
			}
			if _, err := coppice.AllReduce(ctx, t, 1, coppice.Sum); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
