package coppice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/watch"
	"github.com/coppice-go/coppice/protocol/membership"
)

// crew runs the programs of a process's tasks: those that it begins with, and those
// that it takes over.
type crew struct {
	ctx     context.Context
	log     *slog.Logger
	f       Func
	job     string // of its label
	archive *archive
	spare   *rehearser // nil: nothing is rehearsed
	watcher *watch.Watcher
	p       *node.Process
	ready   chan struct{}   // closed when p and done are there
	done    <-chan struct{} // closed when the job is over
	changed chan struct{}   // a task has returned
	tasks   sync.WaitGroup

	mu   sync.Mutex
	over bool                  // the job is: what runs is of no use to anybody
	last map[int]chan struct{} // by task: its last attempt here, closed when that has ended
	errs map[int]outcome       // by task: what its last attempt here returned
}

func newCrew(ctx context.Context, log *slog.Logger, f Func, a *archive, rehearse float64) *crew {
	c := &crew{ctx: ctx, log: log, f: f, archive: a, watcher: watch.From(ctx), ready: make(chan struct{}), changed: make(chan struct{}, 1), last: map[int]chan struct{}{}, errs: map[int]outcome{}}
	if rehearse > 0 {
		c.spare = &rehearser{ctx: ctx, f: f, rate: rehearse, ends: c.watcher != nil, begun: time.Now()}
	}
	return c
}

// start runs the program of a task, after an earlier attempt that may be here.
func (c *crew) start(task, attempt int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, done := c.last[task], make(chan struct{})
	c.last[task] = done
	c.tasks.Go(func() {
		defer close(done)
		<-c.ready
		if before != nil {
			<-before
		}
		if c.p.Killed() || attempt > 0 && (c.finished() || !c.p.Runs(task, attempt)) { // nobody needs it, or it has moved on already
			return
		}
		err := fmt.Errorf("task %d: its function %w; allowed: to return an error", task, errGoexit) // unless f returns
		t := newTask(c.p.World(task), c.log)
		defer func() {
			if crash := recover(); crash != nil { // it ends the process: nothing has returned
				panic(crash)
			}
			if !c.p.Runs(task, attempt) { // it goes on elsewhere
				c.log.Info("moved", "task", task)
				if c.watcher != nil && c.watcher.Moved != nil {
					c.watcher.Moved(t)
				}
				return
			}
			c.mu.Lock()
			if !c.over {
				c.errs[task] = outcome{uint64(attempt) + 1, err}
			}
			c.mu.Unlock()
			c.p.Returned(task, text(err))
			select {
			case c.changed <- struct{}{}:
			default:
			}
		}()
		t.attempt, t.trunk.archive, t.trunk.watcher = attempt, c.archive, c.watcher
		if t.attempt > 0 && c.ctx.Err() != nil { // whoever is to stop begins nothing
			err = fmt.Errorf("task %d: %w", task, context.Cause(c.ctx))
			return
		}
		if rank, quit := c.p.Quit(task); attempt > 0 && quit {
			err = fmt.Errorf("process %d exited with 0 before task %d returned", rank, task)
			return
		}
		if c.spare != nil {
			t.trunk.recorder = newRecorder(c.spare, t)
			defer t.trunk.recorder.stop()
		}
		err = c.f(label(c.ctx, c.job, strconv.Itoa(task)), t)
		t.trunk.returned.Store(true)
		if differs := t.trunk.recorder.finish(err); differs != nil {
			err = differs
		}
		if err != nil {
			err = fmt.Errorf("task %d: %w", task, err)
		}
	})
}

// await waits for the tasks' functions. If the process is a goroutine that was killed, some may wait for ever, for others of its goroutines
// that have ended.
func (c *crew) await() {
	if !c.p.Killed() {
		c.tasks.Wait()
		return
	}
	ended := make(chan struct{})
	go func() {
		c.tasks.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(killedTime):
	}
}

// killedTime is how long the functions of a process that was killed have to end.
const killedTime = 100 * time.Millisecond

// finished reports whether the job is over. A process that exits after the end may be
// taken for dead by one that has not acted on the end yet.
func (c *crew) finished() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// end ends what still runs although every task of the job has returned: tasks of those
// that died after that.
func (c *crew) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	if _, all := c.p.Rest(); !all {
		c.p.End(errOver)
	}
}

var errOver = errors.New("every task has returned")

// outcome is what an attempt of a task returned, and the view that gave the task to the process.
type outcome struct {
	since uint64
	err   error
}

// err is what went wrong in the tasks that views up to a last one gave to the process.
func (c *crew) err(last uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []error
	for _, t := range slices.Sorted(maps.Keys(c.errs)) {
		if o := c.errs[t]; o.since <= last {
			all = append(all, o.err)
		}
	}
	return errors.Join(all...)
}

// serve runs the tasks of a process until the job is done, or the process takes no
// more part in it. It tells when all that the process has in a view have returned, and
// when there is more to do.
func (c *crew) serve(p *node.Process, done <-chan struct{}, rested func(*membership.View, error), resumed func(*membership.View)) {
	c.p, c.done = p, done
	for _, t := range p.Tasks() {
		c.start(t, 0)
	}
	close(c.ready)
	defer c.await()
	sight := p.Sight()
	var told *membership.View // in which all have returned
	for sight != nil {
		switch view, all := p.Rest(); {
		case all && view != told:
			told = view
			rested(view, c.err(math.MaxUint64))
		case !all && told != nil:
			told = nil
			resumed(view)
		}
		select {
		case <-done:
			c.end()
			return
		case <-p.Out():
			return
		case <-c.changed:
		case <-sight.Come():
			sight, _ = sight.Next(context.Background()) // it is there, whatever became of c.ctx
		}
	}
}
