package coppice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/watch"
	"github.com/coppice-go/coppice/protocol/membership"
)

// localJob is a job of goroutines.
type localJob struct {
	j     *Job
	ctx   context.Context
	cfg   *node.Config
	f     Func
	label string
	files *archive
	nodes *node.Local
	runs  sync.WaitGroup // the processes

	mu     sync.Mutex
	crews  []*crew        // by rank of process
	joined sync.WaitGroup // the processes that have joined
	over   bool           // none joins any more
}

// runLocal runs a job of goroutines.
func (j *Job) runLocal(ctx context.Context, n int, cfg node.Config, f Func, files *archive) error {
	l := &localJob{j: j, ctx: ctx, cfg: &cfg, f: f, label: newJob(), files: files}
	cfg.Where = where(l.label)
	if j.Recovery == Replay {
		cfg.Adopt = func(rank, task, attempt int) { l.crew(rank).start(task, attempt) }
	}
	w := watch.From(ctx)
	if w != nil {
		if err := watched(&cfg, w); err != nil {
			return err
		}
	}
	nodes, err := node.NewLocal(n, cfg)
	if err != nil {
		return fmt.Errorf("coppice: %w", err)
	}
	defer nodes.Close()
	l.nodes = nodes
	for range nodes.Processes {
		l.hire()
	}
	if w != nil && w.Began != nil {
		w.Began(watch.Job{Join: l.join, Leave: nodes.Leave})
	}
	for r, p := range nodes.Processes {
		l.runs.Go(func() { l.serve(l.crew(r), p) })
	}
	l.runs.Wait()
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.joined.Wait()
	return l.end(w)
}

// watched sets the configuration of a process so that it reports to a watcher and stands still at the points that the watcher names.
func watched(cfg *node.Config, w *watch.Watcher) error {
	cfg.Entered, cfg.Moves = w.Entered, w.Moves
	for _, text := range w.Pauses {
		k, err := control.ParseKill(text)
		if err == nil {
			err = addKill(cfg, k)
		}
		if err != nil {
			return fmt.Errorf("coppice: pause: %w", err)
		}
		cfg.Kills[len(cfg.Kills)-1].Still = w.Still
	}
	return nil
}

// hire makes the crew of the next process.
func (l *localJob) hire() *crew {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newCrew(l.ctx, l.cfg.Logger, l.f, l.files, l.j.Rehearse)
	c.job = l.label
	l.crews = append(l.crews, c)
	return c
}

func (l *localJob) crew(rank int) *crew {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.crews[rank]
}

// serve runs the tasks of a process until the job is done.
func (l *localJob) serve(c *crew, p *node.Process) {
	c.serve(p, l.nodes.Done(),
		func(v *membership.View, err error) { l.nodes.Returned(p, v, text(err)) },
		func(*membership.View) {})
}

// join has another process join.
func (l *localJob) join() {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	l.joined.Add(1)
	l.mu.Unlock()
	defer l.joined.Done()
	_ = l.nodes.Join(func(p *node.Process) { // its settings are those of the others
		c := l.hire()
		l.joined.Go(func() { l.serve(c, p) })
	})
}

// end is what has come of the job.
func (l *localJob) end(w *watch.Watcher) error {
	var errs []error
	var alive []*node.Process
	for r, p := range l.nodes.All() {
		if p.Killed() {
			if w != nil && w.Killed != nil {
				w.Killed()
			}
			continue
		}
		errs, alive = append(errs, misused(p, l.crew(r).err(math.MaxUint64), p.Misuse())), append(alive, p)
	}
	if err := errors.Join(errs...); err != nil || alive == nil {
		return err
	}
	for _, p := range alive { // some may not have heard yet of a task that is lost
		if err := incomplete(p); err != nil {
			return err
		}
	}
	l.files.tellNothing(l.cfg.Logger)
	return l.files.finish()
}
