package coppicetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/difference"
	"github.com/coppice-go/coppice/internal/watch"
)

// outcome is what comes of a run.
type outcome struct {
	returned map[int]any     // by task
	begun    map[int][]point // by task, in order
	reached  bool            // the fault was done
	err      error
}

// run is a run of the program.
type run struct {
	s     *search
	fault fault
	job   watch.Job
	begun atomic.Int64 // operations

	mu    sync.Mutex
	calls []*call
	under chan struct{} // closed when the process that is to join or leave has done so
	seqs  map[point]int // by task and name: operations begun
	outcome
}

// call is a call of the program that has returned.
type call struct {
	task    *coppice.Task
	value   any
	err     error
	crashed bool // it has panicked
	moved   bool // the task goes on in another process
}

// perform runs the program once, and rehearses it if that is asked for.
func (s *search) perform(f fault, rehearse bool) outcome {
	r := &run{s: s, fault: f, seqs: map[point]int{}, outcome: outcome{returned: map[int]any{}, begun: map[int][]point{}}}
	job := coppice.Job{Local: s.processes(f), Tasks: cmp.Or(s.o.Tasks, s.n), Logger: slog.New(slog.DiscardHandler)}
	if rehearse {
		job.Rehearse = 1
	}
	ctx, stop := context.WithTimeout(watch.With(s.t.Context(), r.watcher()), s.o.Timeout)
	defer stop()
	if f.kind == kill {
		ctx = WithKills(ctx, strings.Split(f.at, ",")...)
	}
	done := make(chan error, 1)
	go func() { done <- job.Run(ctx, r.call) }()
	select {
	case err := <-done:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = errors.Join(err, r.take())
	case <-time.After(s.o.Timeout + hangs):
		stacks := make([]byte, 1<<20)
		s.t.Fatalf("coppicetest: %s the program does not end when its context has%s\n%s", f, s.again(f), stacks[:runtime.Stack(stacks, true)])
	}
	return r.outcome
}

// hangs is how much longer than its context a program may run.
const hangs = 10 * time.Second

// call calls the program for a task.
func (r *run) call(ctx context.Context, task *coppice.Task) (err error) {
	c, killed := &call{task: task}, true // a goroutine of a process that is killed ends without returning
	defer func() {
		if crash := recover(); crash != nil {
			err = fmt.Errorf("panic: %v\n%s", crash, debug.Stack())
			c.crashed, killed = true, false
		}
		if c.err = err; !killed {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.calls = append(r.calls, c)
		}
	}()
	c.value, err = r.s.run(ctx, task)
	killed = false
	return err
}

// take takes what calls have returned: those of a task have to be the same. What the function of a task that has moved returns is of no use to
// anybody, but it must not panic.
func (r *run) take() (err error) {
	for _, c := range r.calls {
		rank := c.task.Rank()
		before, again := r.returned[rank]
		switch {
		case c.moved && c.crashed:
			err = errors.Join(err, fmt.Errorf("task %d has moved to another process, and where it was: %w", rank, c.err))
		case c.moved || c.err != nil:
		case !again:
			r.returned[rank] = c.value
		default:
			if d := difference.Of(before, c.value, "before"); d != "" {
				return errors.Join(err, fmt.Errorf("task %d is run again, and returns something else: %s", rank, d))
			}
		}
	}
	return err
}

// watcher sees what the tasks do, and does to the processes what the fault says.
func (r *run) watcher() *watch.Watcher {
	w := &watch.Watcher{
		Began: func(j watch.Job) { r.job = j }, Entered: r.entered, Before: r.before, Killed: r.reach, Moved: r.moved,
		Moves: r.fault.kind >= join,
		Still: func() {
			r.reach()
			still(&r.begun)
		},
	}
	if r.fault.kind == pause {
		w.Pauses = strings.Split(r.fault.at, ",")
	}
	return w
}

// reach takes note that the fault was done.
func (r *run) reach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reached = true
}

// entered takes note that a task begins an operation, and has a process join or leave if that was to happen there.
func (r *run) entered(task int, op string) {
	r.begun.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	p := point{task: task, op: op}
	r.seqs[p]++
	p.seq = r.seqs[p]
	r.outcome.begun[task] = append(r.outcome.begun[task], p)
	if r.fault.kind < join || p.String() != r.fault.at {
		return
	}
	r.reached, r.under = true, make(chan struct{})
	go func() { // locks are held here
		defer close(r.under)
		if r.fault.kind == join {
			r.job.Join()
		} else {
			r.job.Leave(task)
		}
	}()
}

// before has tasks begin no more operations until the process has joined or left, so that tasks move in their next Save, in all such runs.
func (r *run) before() {
	r.mu.Lock()
	under := r.under
	r.mu.Unlock()
	if under != nil {
		<-under
	}
}

// moved takes note that a task goes on in another process.
func (r *run) moved(task any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.s.moved++
	for _, c := range r.calls {
		c.moved = c.moved || c.task == task
	}
}
