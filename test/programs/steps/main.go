// Command steps is a program for tests of what a job survives: every task saves, reduces and gathers in every step of 40 ms, and
// checks every value.
//
//	steps COUNT
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/coppice-go/coppice"
)

// period is how long a step takes, at least.
const period = 40 * time.Millisecond

// walk is what a task saves.
type walk struct {
	Step   int
	Digest uint64 // of all it has got
}

func main() {
	count := 0
	if len(os.Args) == 2 {
		count, _ = strconv.Atoi(os.Args[1])
	}
	if count < 1 {
		fmt.Fprintln(os.Stderr, "usage: steps COUNT")
		os.Exit(2)
	}
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		var w walk
		for ; w.Step < count; w.Step++ {
			if err := coppice.Save(ctx, t, &w); err != nil {
				return err
			}
			if err := w.step(ctx, t); err != nil {
				return err
			}
			if t.Rank() == 0 {
				fmt.Println("step", w.Step)
			}
			time.Sleep(period)
		}
		var want walk
		for s := range count {
			want.expect(s, t.Size())
		}
		if w.Digest != want.Digest {
			return fmt.Errorf("wrong: task %d has digest %x, want %x", t.Rank(), w.Digest, want.Digest)
		}
		fmt.Println("right:", t.Rank())
		return nil
	})
}

// value is what a task gives in a step.
func value(step, task int) uint64 { return uint64(step)*2654435761 + uint64(task)*uint64(task) }

func (w *walk) add(v uint64) { w.Digest = w.Digest*1099511628211 + v }

func (w *walk) step(ctx context.Context, t *coppice.Task) error {
	sum, err := coppice.AllReduce(ctx, t, value(w.Step, t.Rank()), coppice.Sum)
	if err != nil {
		return err
	}
	w.add(sum)
	all, err := coppice.AllGather(ctx, t, value(w.Step, t.Rank())+1)
	if err != nil {
		return err
	}
	for _, v := range all {
		w.add(v)
	}
	return nil
}

// expect adds what a step gives if nothing is wrong.
func (w *walk) expect(step, tasks int) {
	var sum uint64
	for i := range tasks {
		sum += value(step, i)
	}
	w.add(sum)
	for i := range tasks {
		w.add(value(step, i) + 1)
	}
}
