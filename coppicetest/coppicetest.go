// Package coppicetest tests that programs survive crashes: it runs a program as goroutines, kills a process at every operation of
// every task, in the middle of operations, too, and compares what the tasks return. In other runs a process stands still for a while, another one joins,
// or one leaves and hands its tasks over.
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
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
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
	Seed    uint64        // which points come first if that is not all
	Timeout time.Duration // of each run; default: 30 s

	// How many runs, at most, have no kill, but a process that stands still, joins or leaves; default: a tenth of Runs. Below 0: none.
	Pauses, Joins, Leaves int
}

// WithKills is a context for [coppice.Job.Run], or [coppice.Local], that kills processes of the job at kill points. At
// "3@broadcast#2" the process of task 3 is killed when the task begins its second [coppice.Broadcast], at "3@broadcast#2/4" at the fourth
// step of it. These are the kill points of coppice run --kill (docs/running.md), but for those at a time.
func WithKills(ctx context.Context, at ...string) context.Context { return watch.WithKills(ctx, at...) }

// Survives runs the program as a job of n processes, goroutines of this one, and rehearses it (Job.Rehearse). It runs it then again and
// again, each time with one of them killed: as a task begins an operation, or at a step of it; and then, of three or more, with two of
// them. Each task has to return the same, and no error, every time. Otherwise
// the test fails with the earliest kill point of that task at which something else comes of it, the values that differ, and the
// call that tries this point alone. With more kill points than Options.Runs, a sample of them is tried, by the seed.
//
// Nobody is killed in runs of three other kinds, each with one fault, at as many operations as Options allow:
//
//   - A pause: the process of a task stands still at a step of an operation, until the tasks of the others wait. That must change nothing.
//   - A join: a process joins, of fewer than n, as a task begins an operation. It is given tasks in their next Save, which returns ErrMoved where they were.
//   - A departure: the process of a task leaves, as after SIGTERM, and hands its tasks over in their next Save.
//
// Joins and departures are tried only in programs that save: other tasks never move.
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
	for _, n := range []*int{&o.Pauses, &o.Joins, &o.Leaves} {
		if *n == 0 {
			*n = o.Runs / 10
		}
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
	most int // runs, for now

	steps map[point]int // by operation: its last step that was come to
	moved int           // tasks that have gone on in another process

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
	alone, err := only()
	if err != nil {
		return fmt.Errorf("coppicetest: %w", err)
	}
	w := watch.From(s.t.Context())
	first := s.perform(fault{}, alone.kind == nothing && !s.unrehearsed && (w == nil || !w.Unrehearsed))
	if first.err != nil {
		return fmt.Errorf("coppicetest: nobody is killed, and the program fails: %w", first.err)
	}
	s.want = first.returned
	if alone.kind != nothing {
		return s.judge(alone, s.perform(alone, false))
	}
	if err := s.judge(fault{}, s.perform(fault{}, false)); err != nil {
		return err
	}
	var points []point
	for task := range len(first.returned) {
		points = append(points, first.begun[task]...)
	}
	s.varies = slices.ContainsFunc(points, func(p point) bool { return p.op == "once" })
	rand.New(rand.NewPCG(s.o.Seed, 1)).Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	s.steps, s.most = map[point]int{}, s.o.Runs-s.reserved(first, points)
	tried := 0
	for ; tried < len(points) && s.runs < s.most; tried++ {
		if err := s.within(points[tried]); err != nil {
			return s.earliest(kill, first.begun[points[tried].task], points[tried], err)
		}
	}
	others, err := s.others(first, points)
	if err != nil {
		return err
	}
	s.most = s.o.Runs
	pairs, err := s.pairs(points)
	s.t.Logf("coppicetest: killed at %d of %d operations, and at %d pairs of them; %d pauses, %d joins and %d departures, with %d moves of tasks; %d runs",
		tried, len(points), pairs, others[pause], others[join], others[leave], s.moved, s.runs)
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
		if s.runs >= s.most {
			break
		}
		s.runs++
		tried++
		both := fault{kind: kill, at: a.String() + "," + b.String()}
		if err := s.judge(both, s.perform(both, false)); err != nil {
			return tried, err
		}
	}
	return tried, nil
}

// within kills as a task begins an operation, then at each step of it.
func (s *search) within(p point) error {
	for begin := p; ; p.step++ {
		s.runs++
		f := fault{kind: kill, at: p.String()}
		r := s.perform(f, false)
		if err := s.judge(f, r); err != nil {
			return err
		}
		if p.step > 0 && !r.reached {
			return nil
		}
		if s.steps[begin] = p.step; s.runs >= s.most {
			return nil
		}
	}
}

// earliest is the error at the earliest operation of the task at which there is one, of those that it begins in order.
func (s *search) earliest(k kind, begun []point, found point, err error) error {
	found.step = 0
	for _, p := range begun[:slices.Index(begun, found)] {
		f := fault{kind: k, at: p.String()}
		if e := s.judge(f, s.perform(f, false)); e != nil {
			return e
		}
	}
	return err
}

// judge compares a run with what is to come of it.
func (s *search) judge(f fault, r outcome) error {
	why := ""
	switch {
	case r.err != nil:
		why = fmt.Sprintf("fails: %v", r.err)
	case f.asked && !r.reached:
		why = "does not come there: it has no such operation, or that has fewer steps"
	case f.exact() && !r.reached && !s.varies:
		why = "does not come to that operation: it depends on something else than what it is given"
	default:
		for task := range len(s.want) {
			v, ok := r.returned[task]
			if !ok {
				why = fmt.Sprintf("ends, and task %d returns nothing", task)
				break
			}
			if d := difference.Of(s.want[task], v, "without the "+kinds[f.kind].noun); d != "" {
				why = fmt.Sprintf("returns something else at task %d: %s", task, d)
				break
			}
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("coppicetest: %s the program %s%s", f, why, s.again(f))
}

// again is the line that tries a fault alone.
func (s *search) again(f fault) string {
	if f.kind == nothing {
		return ""
	}
	names := strings.Split(s.t.Name(), "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	pattern := strings.ReplaceAll(strings.Join(names, "/"), "'", `'\''`) // for a shell
	return fmt.Sprintf("\n\tgo test -run '%s' -coppicetest.%s=%s", pattern, kinds[f.kind].flag, f.at)
}
