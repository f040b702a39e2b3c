// Package program holds the programs of jobs that tests harm: they check every value that they get.
package program

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/coppice-go/coppice"
)

// Period is how long a step takes, at least.
const Period = 40 * time.Millisecond

// LogVariable is set for a process that writes its log.
const LogVariable = "COPPICE_TEST_LOG"

// Right is what a task prints, followed by its rank, when all its values were right.
const Right = "right:"

// MainVariable is set for a process that runs its program by coppice.Main, with a task for each process.
const MainVariable = "COPPICE_TEST_MAIN"

// Enough is the suffix that, added to the name of the file of steps, names the file that ends a job
// without a fixed number of steps.
const Enough = ".enough"

// Main runs a process of a job and returns its exit code. The arguments are one of:
//
//	steps COUNT TASKS FILE [STORE]; COUNT 0: until there is FILE.enough
//	broadcast MEBIBYTES
//	allreduce MEBIBYTES
//	allreducefunc MEBIBYTES
//	idle SECONDS FILE
func Main(args []string) int {
	number := func(i int) int {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	job := &coppice.Job{}
	if os.Getenv(LogVariable) != "" {
		job.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	var f coppice.Func
	switch args[0] {
	case "steps":
		job.Tasks = number(2)
		steps := Steps{Count: number(1), Ended: func(step int) error { return noteStep(args[3], step) }}
		if steps.Count == 0 {
			steps.Last = func() bool {
				_, err := os.Stat(args[3] + Enough)
				return err == nil
			}
		}
		if len(args) > 4 {
			steps.Save = append(steps.Save, coppice.Stored(args[4]))
		}
		f = steps.Run
	case "broadcast":
		f = broadcast(number(1))
	case "allreduce":
		f = allReduce(number(1), false)
	case "allreducefunc":
		f = allReduce(number(1), true)
	case "idle":
		f = idle(time.Duration(number(1))*time.Second, args[2])
	}
	if os.Getenv(MainVariable) != "" {
		coppice.Main(f)
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // as coppice.Main does under a launcher
	context.AfterFunc(ctx, stop)
	if err := job.Run(ctx, f); err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		return 1
	}
	return 0
}

// walk is the state that a task of the program of steps saves.
type walk struct {
	Step   int
	Digest uint64 // of all results so far
}

// stepValue returns the value that a task gives in a step.
func stepValue(step, task int) uint64 { return uint64(step)*2654435761 + uint64(task)*uint64(task) }

func (w *walk) add(v uint64) { w.Digest = w.Digest*1099511628211 + v }

// Steps is a program that saves, reduces and gathers in every step, and checks every
// value.
type Steps struct {
	Count  int                  // the steps, if Last is nil
	Last   func() bool          // nil, or called by task 0 after each step: was it the last?
	Period time.Duration        // how long a step takes, at least; 0: Period
	Begun  func(task, step int) // nil, or called by every task before each step
	Ended  func(step int) error // called by task 0 after each step
	Save   []coppice.SaveOption // of Save
}

// Run runs one task.
func (s Steps) Run(ctx context.Context, t *coppice.Task) error {
	var w walk
	for last := false; !last && (s.Last != nil || w.Step < s.Count); w.Step++ {
		if err := coppice.Save(ctx, t, &w, s.Save...); err != nil {
			return err
		}
		if s.Begun != nil {
			s.Begun(t.Rank(), w.Step)
		}
		if err := w.step(ctx, t); err != nil {
			return err
		}
		if t.Rank() == 0 {
			if err := s.Ended(w.Step); err != nil {
				return err
			}
		}
		if s.Last != nil {
			var err error
			if last, err = s.last(ctx, t); err != nil {
				return err
			}
		}
		time.Sleep(cmp.Or(s.Period, Period))
	}
	var want walk
	for i := range w.Step {
		want.expect(i, t.Size())
	}
	if w.Digest != want.Digest {
		return fmt.Errorf("wrong: task %d has digest %x, want %x", t.Rank(), w.Digest, want.Digest)
	}
	fmt.Println(Right, t.Rank())
	return nil
}

// last reports to every task whether the step was the last one.
func (s Steps) last(ctx context.Context, t *coppice.Task) (last bool, err error) {
	if t.Rank() == 0 {
		last, err = coppice.Once(ctx, t, func(context.Context) (bool, error) { return s.Last(), nil })
		if err != nil {
			return false, err
		}
	}
	return coppice.Broadcast(ctx, t, last)
}

func (w *walk) step(ctx context.Context, t *coppice.Task) error {
	sum, err := coppice.AllReduce(ctx, t, stepValue(w.Step, t.Rank()), coppice.Sum)
	if err != nil {
		return err
	}
	w.add(sum)
	all, err := coppice.AllGather(ctx, t, stepValue(w.Step, t.Rank())+1)
	if err != nil {
		return err
	}
	for _, v := range all {
		w.add(v)
	}
	return nil
}

// expect adds the result of a step in which nothing is wrong.
func (w *walk) expect(step, tasks int) {
	var sum uint64
	for i := range tasks {
		sum += stepValue(step, i)
	}
	w.add(sum)
	for i := range tasks {
		w.add(stepValue(step, i) + 1)
	}
}

// noteStep appends the time of a step to a file.
func noteStep(file string, step int) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, step, time.Now().UnixNano())
	return err
}

// broadcast sends this many MiB from task 0 to all tasks, which check every byte.
func broadcast(mebibytes int) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		pattern := make([]byte, 1<<20)
		for i := range pattern {
			pattern[i] = byte(i*7 + i>>11)
		}
		var value []byte
		if t.Rank() == 0 {
			value = bytes.Repeat(pattern, mebibytes)
		}
		got, err := coppice.Broadcast(ctx, t, value)
		if err != nil {
			return err
		}
		if len(got) != mebibytes<<20 {
			return fmt.Errorf("wrong: task %d has %d bytes, want %d", t.Rank(), len(got), mebibytes<<20)
		}
		for i := 0; i < len(got); i += len(pattern) {
			if !bytes.Equal(got[i:i+len(pattern)], pattern) {
				return fmt.Errorf("wrong: task %d, in the MiB from byte %d on", t.Rank(), i)
			}
		}
		fmt.Println(Right, t.Rank())
		return nil
	}
}

// allReduce adds up this many MiB of numbers, by a function or not. All tasks check every one.
func allReduce(mebibytes int, function bool) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		numbers := make([]uint64, mebibytes<<17)
		for i := range numbers {
			numbers[i] = stepValue(i, t.Rank())
		}
		var sums []uint64
		var err error
		if function {
			sums, err = coppice.AllReduceFunc(ctx, t, numbers, addUp, coppice.Commutative(), coppice.Backups(false))
		} else {
			sums, err = coppice.AllReduce(ctx, t, numbers, coppice.Sum)
		}
		if err != nil {
			return err
		}
		for i, got := range sums {
			var want uint64
			for r := range t.Size() {
				want += stepValue(i, r)
			}
			if got != want {
				return fmt.Errorf("wrong: task %d has %d as sum %d, want %d", t.Rank(), got, i, want)
			}
		}
		fmt.Println(Right, t.Rank())
		return nil
	}
}

func addUp(a, b []uint64) []uint64 {
	for i, v := range b {
		a[i] += v
	}
	return a
}

// idle does nothing between two barriers. Task 0 writes the time of the first one to a file.
func idle(d time.Duration, file string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		if t.Rank() == 0 {
			if err := noteStep(file, 0); err != nil {
				return err
			}
		}
		time.Sleep(d)
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		fmt.Println(Right, t.Rank())
		return nil
	}
}
