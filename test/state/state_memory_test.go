package state_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/stage"
)

// flatVariable is the environment variable with the number of operations that each task of a saving job
// calls, instead of the usual few: with 250000, its four tasks call a million.
const flatVariable = "COPPICE_SAVED_OPERATIONS"

func init() { stage.Plays["flat"] = flat }

// flat calls this many operations, and saves every hundred. It reports how much more of the heap is in
// use at the end than after the first quarter.
func flat(tell func(stage.Line), args []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		heap := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		rounds, early := stage.Number(args[0])/100, 0
		s := struct {
			Round int
			Sums  [16]float64
		}{}
		side := t.Fork()
		for ; s.Round < rounds; s.Round++ {
			if err := coppice.Save(ctx, t, &s); err != nil {
				return err
			}
			if t.Rank() == 0 && s.Round == rounds/4 {
				early = heap()
			}
			for i := range 100 {
				on := t
				if i%10 == 0 {
					on = side
				}
				sum, err := coppice.AllReduce(ctx, on, s.Sums[i%16]+1, coppice.Sum)
				if err != nil {
					return err
				}
				s.Sums[i%16] = sum / float64(t.Size())
			}
			add := func(a, b [100]float64) [100]float64 { return [100]float64{a[0] + b[0]} }
			if _, err := coppice.AllReduceFunc(ctx, t, [100]float64{}, add, coppice.Backups(true)); err != nil {
				return err
			}
			if _, err := coppice.Once(ctx, t.Fork(), func(context.Context) ([]int, error) { return make([]int, 100), nil }); err != nil {
				return err
			}
		}
		if t.Rank() == 0 {
			stage.Telling(tell, t)(stage.Line{What: "more", Value: heap() - early})
		}
		return nil
	}
}

// TestSaveBoundsMemory: neither a job of a million operations nor a shorter one takes more memory in
// the end.
func TestSaveBoundsMemory(t *testing.T) {
	const tasks, slack = 4, 2 << 20
	many, few := stage.Short(60_000, 12_000), stage.Short(8_000, 4_000)
	if n := os.Getenv(flatVariable); n != "" {
		many, few = stage.Number(n), stage.Number(n)
	}
	s := stage.Scene{N: tasks, Play: []string{"flat", fmt.Sprint(many)}}
	x, err := s.Local(t)
	if err != nil {
		t.Fatal(err)
	}
	if more := x.Of("more"); len(more) != 1 || more[0].Value > slack {
		t.Errorf("Local: %v", more)
	}
	s.Play[1] = fmt.Sprint(few)
	x, _ = s.Real(t)
	if more := x.Of("more"); len(more) != 1 || more[0].Value > slack {
		t.Errorf("processes: %v", more)
	} else {
		t.Logf("processes: %d bytes more after %s operations", more[0].Value, s.Play[1])
	}
}
