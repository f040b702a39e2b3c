package coppice_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/stage"
)

// thrifty are small operations that need no memory in steady state.
var thrifty = map[string]func(ctx context.Context, t *coppice.Task) func() error{
	"barrier": func(ctx context.Context, t *coppice.Task) func() error {
		return func() error { return coppice.Barrier(ctx, t) }
	},
	"broadcast of int": func(ctx context.Context, t *coppice.Task) func() error {
		return func() error { _, err := coppice.Broadcast(ctx, t, 7); return err }
	},
	"broadcast with options": func(ctx context.Context, t *coppice.Task) func() error {
		return func() error {
			_, err := coppice.Broadcast(ctx, t, 7, coppice.Agreed(), coppice.Replayed(), coppice.Root(1)) // of two modes the last one counts
			return err
		}
	},
	"broadcast into": func(ctx context.Context, t *coppice.Task) func() error {
		v, into := make([]float64, 16), coppice.Into(make([]float64, 16))
		return func() error { _, err := coppice.Broadcast(ctx, t, v, into); return err }
	},
	"broadcast of what is shared": func(ctx context.Context, t *coppice.Task) func() error {
		v, into := make([]float64, 16), coppice.Into(make([]float64, 16))
		return func() error { _, err := coppice.Broadcast(ctx, t, v, coppice.Shared(), into); return err }
	},
	"allreduce of what is shared": func(ctx context.Context, t *coppice.Task) func() error {
		v, into := make([]float64, 16), coppice.Into(make([]float64, 16))
		return func() error { _, err := coppice.AllReduce(ctx, t, v, coppice.Sum, coppice.Shared(), into); return err }
	},
	"allreduce of int": func(ctx context.Context, t *coppice.Task) func() error {
		return func() error { _, err := coppice.AllReduce(ctx, t, 7, coppice.Sum); return err }
	},
	"allreduce into": func(ctx context.Context, t *coppice.Task) func() error {
		v, into := make([]float64, 16), coppice.Into(make([]float64, 16))
		return func() error { _, err := coppice.AllReduce(ctx, t, v, coppice.Sum, into); return err }
	},
	"allreduce into and barrier in turns": func(ctx context.Context, t *coppice.Task) func() error {
		v, into := make([]float64, 16), coppice.Into(make([]float64, 16))
		return func() error {
			if _, err := coppice.AllReduce(ctx, t, v, coppice.Sum, into); err != nil {
				return err
			}
			return coppice.Barrier(ctx, t)
		}
	},
	"reduce of float64": func(ctx context.Context, t *coppice.Task) func() error {
		return func() error { _, err := coppice.Reduce(ctx, t, 7.5, coppice.Max, coppice.Root(1)); return err }
	},
	"scan of int": func(ctx context.Context, t *coppice.Task) func() error {
		return func() error { _, err := coppice.Scan(ctx, t, 7, coppice.Sum); return err }
	},
	"reducescatter of int": func(ctx context.Context, t *coppice.Task) func() error {
		parts := make([]int, t.Size())
		return func() error { _, err := coppice.ReduceScatter(ctx, t, parts, coppice.Sum); return err }
	},
	"gather into": func(ctx context.Context, t *coppice.Task) func() error {
		into := coppice.Into(make([]int, t.Size()))
		return func() error { _, err := coppice.Gather(ctx, t, 7, into); return err }
	},
	"allgather into": func(ctx context.Context, t *coppice.Task) func() error {
		into := coppice.Into(make([]int, t.Size()))
		return func() error { _, err := coppice.AllGather(ctx, t, 7, into); return err }
	},
	"allgather of slices into": func(ctx context.Context, t *coppice.Task) func() error {
		into := coppice.Into(stage.Fill(t.Size(), func(int) []int32 { return make([]int32, 10) }))
		v := make([]int32, 10)
		return func() error { _, err := coppice.AllGather(ctx, t, v, into); return err }
	},
	"alltoall into": func(ctx context.Context, t *coppice.Task) func() error {
		into, parts := coppice.Into(make([]int, t.Size())), make([]int, t.Size())
		return func() error { _, err := coppice.AllToAll(ctx, t, parts, into); return err }
	},
	"scatter of int": func(ctx context.Context, t *coppice.Task) func() error {
		parts := make([]int, t.Size())
		return func() error { _, err := coppice.Scatter(ctx, t, parts); return err }
	},
}

// oneWay are operations in which some run ahead of others, more or less: what was
// never so far ahead before needs memory once.
var oneWay = regexp.MustCompile("^(broadcast|scatter|gather|reduce)")

// TestSmallOperationsAllocateNothing: in steady state, about 0.1 allocations a task
// at most.
func TestSmallOperationsAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which goes with -short, allocates; runs without -short")
	}
	for _, v := range []venue{{kind: inMemory, n: 4}, {kind: venueKinds[1], n: 4}, {kind: venueKinds[2], n: 6}} {
		for _, name := range slices.Sorted(maps.Keys(thrifty)) {
			t.Run(fmt.Sprintf("%s/%d/%s", v.kind, v.n, name), func(t *testing.T) {
				limit := 0.1
				if oneWay.MatchString(name) {
					limit = 0.3
				}
				got := allocations(t, v, thrifty[name], limit)
				t.Logf("%.3f allocations", got)
				if got > limit {
					t.Error("too many")
				}
			})
		}
	}
}

// allocations counts them a task and operation, until there are few enough: processes
// connect, on a busy machine late, and whenever a task is further behind the others than
// ever before, what waits for it needs memory once. Neither happens often; memory that
// each operation needs is counted in every try.
func allocations(t *testing.T, v venue, op func(ctx context.Context, t *coppice.Task) func() error, limit float64) float64 {
	t.Helper()
	const warm, rounds, tries = 600, 600, 20
	best := 1e9
	var few atomic.Bool // told by task 0 before a barrier, so all see the same after it
	var before, after runtime.MemStats
	err := v.run(t, stage.Patience(t), func(ctx context.Context, task *coppice.Task) error {
		call := op(ctx, task)
		for try := range tries + 1 {
			n := rounds
			if try == 0 {
				n = warm
			}
			if err := coppice.Barrier(ctx, task); err != nil || few.Load() {
				return err
			}
			if task.Rank() == 0 {
				runtime.ReadMemStats(&before)
			}
			if err := coppice.Barrier(ctx, task); err != nil {
				return err
			}
			for range n {
				if err := call(); err != nil {
					return err
				}
			}
			if err := coppice.Barrier(ctx, task); err != nil {
				return err
			}
			if task.Rank() == 0 {
				runtime.ReadMemStats(&after)
				if try > 0 {
					best = min(best, float64(after.Mallocs-before.Mallocs)/float64(rounds*v.n))
					few.Store(best <= limit)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return best
}

// TestSlowRootKeepsMemoryBounded: a root that does not call Gather while the
// others are ahead of it holds what they may send ahead, and no more; what is
// large waits where it is, and those who have it wait before there is too much.
func TestSlowRootKeepsMemoryBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and a GiB; runs without -short")
	}
	const p = 4
	for _, kind := range venueKinds[:2] {
		for _, c := range []struct{ size, rounds, limit int }{{60 << 10, 1200, 100 << 20}, {1 << 20, 80, 120 << 20}} {
			v := venue{kind: kind, n: p}
			runtime.GC()
			before := heapBytes()
			var held uint64
			err := v.run(t, stage.Patience(t), func(ctx context.Context, task *coppice.Task) error {
				value := make([]byte, c.size)
				if task.Rank() == 0 {
					held = settledHeap() - before
				}
				for i := range c.rounds {
					if _, err := coppice.Gather(ctx, task, value); err != nil {
						return fmt.Errorf("gather %d: %w", i, err)
					}
				}
				return nil
			})
			t.Logf("%s: %d tasks ahead of a root with values of %d KiB: %d MiB in all", kind, p-1, c.size>>10, int64(held)>>20)
			if err != nil {
				t.Error(err)
			}
			if int64(held) > int64(c.limit) {
				t.Errorf("%s: %d bytes", kind, held)
			}
		}
	}
}

// settledHeap waits until the heap does not grow any more and returns its size.
func settledHeap() (size uint64) {
	for same := 0; same < 3; {
		time.Sleep(100 * time.Millisecond)
		now := heapBytes()
		if same++; now > size+size/50 {
			same = 0
		}
		size = now
	}
	return size
}

// heapBytes is what is in use.
func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What a task passes for several tasks is copied once, to memory of the right size.
func TestPartsAreCopiedOnce(t *testing.T) {
	const n, size = 4, 8 << 20
	var before, after runtime.MemStats
	job := coppice.Job{Local: n}
	err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
		var parts [][]byte
		if task.Rank() == 0 {
			for range n {
				parts = append(parts, make([]byte, size))
			}
			runtime.ReadMemStats(&before)
		}
		if _, err := coppice.Scatter(ctx, task, parts); err != nil {
			return err
		}
		if err := coppice.Barrier(ctx, task); err != nil || task.Rank() > 0 {
			return err
		}
		runtime.ReadMemStats(&after)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The copy, and one that each task takes of its part.
	if got, want := after.TotalAlloc-before.TotalAlloc, uint64(2*n*size); got > want+want/8 {
		t.Errorf("%d bytes are allocated, want %d", got, want)
	}
}
