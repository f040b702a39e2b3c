package coppice

import (
	"context"
	"iter"

	"github.com/coppice-go/coppice/internal/node"
)

// View is who is in the job, as all its processes have agreed. Views are
// numbered from 1; every process sees the same ones, in the same order.
type View struct {
	Number    uint64
	Processes []Process // that are in, in the order of their ids
	Owners    []int     // by task: the id of the process that owns it, −1: none, its process is gone
}

// Process is one process of a job. One that comes back after its death has the
// same id and the next incarnation.
type Process struct {
	ID          int
	Incarnation int // from 1
}

// View returns the view that is in force now. It may differ between attempts of a
// task: what a program does must not depend on it.
func (t *Task) View() View {
	if t.no() {
		return View{}
	}
	return viewOf(t.m.Sight())
}

// Views returns the view that is in force now, then every later one as it comes,
// until the context or the job ends.
func (t *Task) Views(ctx context.Context) iter.Seq[View] {
	return func(yield func(View) bool) {
		if t.no() {
			return
		}
		for s := t.m.Sight(); s != nil && yield(viewOf(s)); {
			next, err := s.Next(ctx)
			if err != nil {
				return
			}
			s = next
		}
	}
}

func viewOf(s *node.Sight) View {
	v := View{
		Number:    s.View.Number,
		Processes: make([]Process, len(s.View.Members)),
		Owners:    make([]int, len(s.View.Owners)),
	}
	for i, m := range s.View.Members {
		v.Processes[i] = Process{ID: int(m.ID), Incarnation: int(m.Incarnation)}
	}
	for t, id := range s.View.Owners {
		v.Owners[t] = int(id)
	}
	return v
}
