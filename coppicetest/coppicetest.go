// Package coppicetest tests that programs survive crashes: it runs a program as goroutines, kills a process at every operation of
// every task, in the middle of operations, too, and compares what the tasks return.
//
//	func TestSums(t *testing.T) {
//		coppicetest.Survives(t, 4, func(ctx context.Context, task *coppice.Task) (int, error) {
//			return sums(ctx, task)
//		})
//	}
//
// A program that is run again has to do what it did before (docs/api.md, the user's duties). One that does not, since it has left a
// variable out of Save or depends on a clock, mostly returns something else when a process is killed at the wrong moment: this
// finds the moment, and says what to call to see it again.
package coppicetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/difference"
	"github.com/coppice-go/coppice/internal/watch"
)

// Options are the settings of Survives. The zero value of every field is its default.
type Options struct {
	Tasks   int           // default: one per process
	Runs    int           // at most so many are made; default: 5000, or 500 with go test -short
	Seed    uint64        // which kill points come first if that is not all
	Timeout time.Duration // of each run; default: 30 s
}

// WithKills is a context for [coppice.Job.Run], or [coppice.Local], that kills processes of the job at kill points. At
// "3@broadcast#2" the process of task 3 is killed when the task begins its second [coppice.Broadcast], at "3@broadcast#2/4" at the fourth
// step of it. These are the kill points of coppice run --kill (docs/running.md), but for those at a time.
func WithKills(ctx context.Context, at ...string) context.Context { return watch.WithKills(ctx, at...) }

// killFlag has Survives try some kill points only.
var killFlag = flag.String("coppicetest.kill", "", "have Survives try only these kill points, separated by commas, in one run: 1@allreduce#3/2")

// Survives runs the program as a job of n processes, goroutines of this one, and rehearses it (Job.Rehearse). It runs it then again and
// again, each time with one of them killed: as a task begins an operation, or at a step of it; and then, of three or more, with two of
// them. Each task has to return the same, and no error, every time. Otherwise
// the test fails with the earliest kill point of that task at which something else comes of it, the values that differ, and the
// call that tries this point alone. With more kill points than Options.Runs, a sample of them is tried, by the seed.
//
// The program is called by several goroutines at once, and may be called again for a task while an earlier call still
// ends; what it changes outside has to allow for that. The results are compared as reflect.DeepEqual does.
func Survives[R any](t testing.TB, n int, program func(ctx context.Context, task *coppice.Task) (R, error), opts ...Options) {
	t.Helper()
	var o Options
	if len(opts) > 0 {
		o = opts[0]
	}
	if err := o.check(n, program == nil); err != nil {
		t.Fatal(err)
	}
	s := &search{t: t, n: n, o: o.filled(), run: func(ctx context.Context, task *coppice.Task) (any, error) { return program(ctx, task) }}
	if err := s.all(); err != nil {
		t.Fatal(err)
	}
}

// check says what is wrong with what Survives is given.
func (o Options) check(n int, none bool) error {
	switch {
	case none:
		return errors.New("coppicetest: no program; allowed: a function for a task")
	case n < 2:
		return fmt.Errorf("coppicetest: %d processes; allowed: 2 or more, so that one is left when another is killed", n)
	case o.Runs < 0:
		return fmt.Errorf("coppicetest: at most %d runs; allowed: 1 or more", o.Runs)
	case o.Timeout < 0:
		return fmt.Errorf("coppicetest: a timeout of %v; allowed: more than 0", o.Timeout)
	}
	return nil
}

func (o Options) filled() Options {
	if o.Runs == 0 {
		o.Runs = 5000
		if testing.Short() {
			o.Runs = 500
		}
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	return o
}

// search looks for a kill point that a program does not survive.
type search struct {
	t    testing.TB
	n    int
	o    Options
	run  func(ctx context.Context, task *coppice.Task) (any, error)
	want map[int]any // by task: what it returns if nobody is killed
	runs int

	varies      bool // what tasks get from outside, or from whom first, may differ from run to run: they call Once or RecvAny
	unrehearsed bool // only kills are tried
}

// point is where a process is killed.
type point struct {
	task int
	op   string
	seq  int
	step int // 0: as the task begins the operation
}

func (p point) String() string {
	text := fmt.Sprintf("%d@%s#%d", p.task, p.op, p.seq)
	if p.step > 0 {
		text += fmt.Sprintf("/%d", p.step)
	}
	return text
}

// all runs the program without a kill, and then with each.
func (s *search) all() error {
	first := s.perform("", *killFlag == "" && !s.unrehearsed)
	if first.err != nil {
		return fmt.Errorf("coppicetest: nobody is killed, and the program fails: %w", first.err)
	}
	s.want = first.returned
	if *killFlag != "" {
		return s.judge(*killFlag, s.perform(*killFlag, false))
	}
	if err := s.judge("", s.perform("", false)); err != nil {
		return err
	}
	var points []point
	for task := range len(first.returned) {
		points = append(points, first.begun[task]...)
	}
	s.varies = slices.ContainsFunc(points, func(p point) bool { return p.op == "once" })
	rand.New(rand.NewPCG(s.o.Seed, 1)).Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	tried := 0
	for ; tried < len(points) && s.runs < s.o.Runs; tried++ {
		if err := s.within(points[tried]); err != nil {
			return s.earliest(first.begun[points[tried].task], points[tried], err)
		}
	}
	pairs, err := s.pairs(points)
	s.t.Logf("coppicetest: killed at %d of %d operations, and at %d pairs of them, in %d runs", tried, len(points), pairs, s.runs)
	return err
}

// pairs kills two processes at operations of different tasks, for as many pairs as there are operations. Of two processes, none would be left.
func (s *search) pairs(points []point) (tried int, err error) {
	if s.n < 3 {
		return 0, nil
	}
	rng := rand.New(rand.NewPCG(s.o.Seed, 2))
	for range points {
		a, b := points[rng.IntN(len(points))], points[rng.IntN(len(points))]
		if a.task == b.task {
			continue
		}
		if s.runs >= s.o.Runs {
			break
		}
		s.runs++
		tried++
		kill := a.String() + "," + b.String()
		if err := s.judge(kill, s.perform(kill, false)); err != nil {
			return tried, err
		}
	}
	return tried, nil
}

// within kills as a task begins an operation, then at each step of it.
func (s *search) within(p point) error {
	for ; ; p.step++ {
		s.runs++
		r := s.perform(p.String(), false)
		if err := s.judge(p.String(), r); err != nil {
			return err
		}
		if p.step > 0 && !r.killed || s.runs >= s.o.Runs {
			return nil
		}
	}
}

// earliest is the error at the earliest operation of the task at which there is one, of those that it begins in order.
func (s *search) earliest(begun []point, found point, err error) error {
	found.step = 0
	for _, p := range begun[:slices.Index(begun, found)] {
		if e := s.judge(p.String(), s.perform(p.String(), false)); e != nil {
			return e
		}
	}
	return err
}

// outcome is what comes of a run.
type outcome struct {
	returned map[int]any     // by task
	begun    map[int][]point // by task, in order
	killed   bool
	err      error
}

// perform runs the program once, and rehearses it if that is asked for.
func (s *search) perform(kill string, rehearse bool) (r outcome) {
	r = outcome{returned: map[int]any{}, begun: map[int][]point{}}
	job := coppice.Job{Local: s.n, Tasks: s.o.Tasks, Logger: slog.New(slog.DiscardHandler)}
	if rehearse {
		job.Rehearse = 1
	}
	var mu sync.Mutex
	var again error
	seqs := map[point]int{}
	watcher := &watch.Watcher{
		Entered: func(task int, op string) {
			mu.Lock()
			defer mu.Unlock()
			p := point{task: task, op: op}
			seqs[p]++
			p.seq = seqs[p]
			r.begun[task] = append(r.begun[task], p)
		},
		Killed: func() {
			mu.Lock()
			defer mu.Unlock()
			r.killed = true
		},
	}
	ctx, stop := context.WithTimeout(watch.With(s.t.Context(), watcher), s.o.Timeout)
	if kill != "" {
		ctx = WithKills(ctx, strings.Split(kill, ",")...)
	}
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- job.Run(ctx, func(ctx context.Context, task *coppice.Task) (err error) {
			defer func() {
				if crash := recover(); crash != nil {
					err = fmt.Errorf("panic: %v\n%s", crash, debug.Stack())
				}
			}()
			v, err := s.run(ctx, task)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if before, ok := r.returned[task.Rank()]; !ok {
				r.returned[task.Rank()] = v
			} else if d := difference.Of(before, v, "before"); again == nil && d != "" {
				again = fmt.Errorf("task %d is run again, and returns something else: %s", task.Rank(), d)
			}
			return nil
		})
	}()
	select {
	case r.err = <-done:
		r.err = errors.Join(r.err, again)
	case <-time.After(s.o.Timeout + hangs):
		stacks := make([]byte, 1<<20)
		why := "nobody is killed"
		if kill != "" {
			why = "killed at " + kill
		}
		s.t.Fatalf("coppicetest: %s, the program does not end when its context has%s\n%s", why, s.again(kill), stacks[:runtime.Stack(stacks, true)])
	}
	return r
}

// without says of a result when it was another.
const without = "without the kill"

// hangs is how much longer than its context a program may run.
const hangs = 10 * time.Second

// judge compares a run with what is to come of it.
func (s *search) judge(kill string, r outcome) error {
	why, again := "", "nobody is killed, and the program"
	if kill != "" {
		again = fmt.Sprintf("killed at %s, the program", kill)
	}
	switch {
	case r.err != nil:
		why = fmt.Sprintf("fails: %v", r.err)
	case kill != "" && !strings.Contains(kill, "/") && !r.killed && !s.varies:
		why = "does not come to that operation: it depends on something else than what it is given"
	default:
		for task := range len(s.want) {
			v, ok := r.returned[task]
			if !ok {
				why = fmt.Sprintf("ends, and task %d returns nothing", task)
				break
			}
			if d := difference.Of(s.want[task], v, without); d != "" {
				why = fmt.Sprintf("returns something else at task %d: %s", task, d)
				break
			}
		}
	}
	switch {
	case why == "":
		return nil
	case kill == "":
		return fmt.Errorf("coppicetest: %s %s", again, why)
	}
	return fmt.Errorf("coppicetest: %s %s%s", again, why, s.again(kill))
}

// again is the line that tries a kill point alone.
func (s *search) again(kill string) string {
	if kill == "" {
		return ""
	}
	names := strings.Split(s.t.Name(), "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	pattern := strings.ReplaceAll(strings.Join(names, "/"), "'", `'\''`) // for a shell
	return fmt.Sprintf("\n\tgo test -run '%s' -coppicetest.kill=%s", pattern, kill)
}
