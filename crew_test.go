package coppice

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"

	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/store"
)

// TestWhatFailsAfterTheEndDoesNotCount: a process that takes others for dead, which have ended
// with the job, runs their tasks again, in a later view than that of the end.
func TestWhatFailsAfterTheEndDoesNotCount(t *testing.T) {
	adopted := make(chan struct{})
	log := slog.New(slog.DiscardHandler)
	c := newCrew(t.Context(), log, func(context.Context, *Task) error { return errors.New("lost") }, newArchive(store.Run{}), 0)
	job, err := node.NewLocal(2, node.Config{Logger: log, Adopt: func(_, task, attempt int) {
		c.start(task, attempt)
		close(adopted)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	c.p, c.done = job.Processes[0], make(chan struct{})
	close(c.ready)
	job.Processes[0].Tell(node.Death{Rank: 1, Incarnation: 1, Certain: true})
	<-adopted
	c.tasks.Wait()
	m := &mediator{ending: ending{last: math.MaxUint64}, finished: make(chan struct{})}
	if c.err(m.end().last) == nil {
		t.Error("the job goes on, and a task that was run again has not failed")
	}
	m.Finished(1, "")
	if err := c.err(m.end().last); err != nil {
		t.Errorf("the job ended in view 1; process 0 fails: %v", err)
	}
}

// TestTasksOfTheEndedHaveNotReturned: a task that fails because its process was killed, or takes
// no more part, goes on elsewhere. The job does not end with it.
func TestTasksOfTheEndedHaveNotReturned(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	job, err := node.NewLocal(2, node.Config{Logger: log, Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	p := job.Processes[0]
	c := newCrew(t.Context(), log, func(context.Context, *Task) error {
		p.End(errors.New("killed"))
		return errors.New("killed")
	}, newArchive(store.Run{}), 0)
	c.p, c.done = p, job.Done()
	close(c.ready)
	c.start(0, 0)
	c.tasks.Wait()
	if _, all := p.Rest(); all {
		t.Error("the tasks of a process that was killed have returned")
	}
}

// TestNothingStartsAfterTheEnd gives a process the task of another that exits after the
// job's end, as happens where it learns of the exit before it acts on the end.
func TestNothingStartsAfterTheEnd(t *testing.T) {
	for name, over := range map[string]bool{"before the end": false, "after the end": true} {
		t.Run(name, func(t *testing.T) {
			began, adopted := make(chan int, 1), make(chan struct{})
			f := func(_ context.Context, task *Task) error {
				began <- task.Attempt()
				return nil
			}
			log := slog.New(slog.DiscardHandler)
			c := newCrew(t.Context(), log, f, newArchive(store.Run{}), 0)
			job, err := node.NewLocal(2, node.Config{Logger: log, Adopt: func(_, task, attempt int) {
				c.start(task, attempt)
				close(adopted)
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer job.Close()
			done := make(chan struct{})
			if over {
				close(done)
			}
			c.p, c.done = job.Processes[0], done
			close(c.ready)
			job.Processes[0].Tell(node.Death{Rank: 1, Incarnation: 1, Certain: true})
			<-adopted
			c.tasks.Wait()
			if ran := len(began) > 0; ran == over {
				t.Errorf("the program of the task was run: %v", ran)
			}
		})
	}
}
