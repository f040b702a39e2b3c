// Package ending decides when a job is over. The coordinator, jobs of goroutines and the
// chaos driver run it.
//
// A process has returned in a view when all tasks that it owns there have. A job is over when
// every process that owns tasks in the latest view has returned, in that view or in one before
// since which it was given none. Then every task has returned somewhere, at its owner. That a
// process died after it returned does not matter, and need not be known; the tasks of one that
// died before belong to others in a later view, which have not returned there.
//
// Nobody needs to tell of a view in time: a task moves only after its owner died or gave it
// up, and as long as the view before counts, its owner there has either returned or is waited
// for. But if a process has returned in a view that no process has reported, tasks may have moved
// there, and that view is waited for.
//
// A coordinator that is part of a process may die while it tells the others, some of which leave at once. So
// they are told in two steps: that the job is over, which each acknowledges; and, when all
// who live know, that they may leave. Who knows tells the coordinator that takes the place of this one (Learn). If one who knows
// finds that it has no quorum any more, the others have left, or cannot be told, and it ends well.
package ending

import (
	"cmp"
	"slices"

	"github.com/coppice-go/coppice/protocol/membership"
)

// Verdict is what is known of a job's end.
type Verdict int

// The verdicts.
const (
	Going     Verdict = iota
	Over              // every task has returned
	Abandoned         // some have not, and nobody in the latest view lives
)

// Job is a job that ends.
type Job struct {
	view    *membership.View // the latest that is known
	lives   []life           // of which something is known, in the order of ids
	latest  uint64           // view in which any has returned
	over    uint64           // view in which another coordinator has found it to be over; 0: none is known
	reports bool             // nobody runs tasks of the dead
}

// life is what is known of one.
type life struct {
	membership.Member
	returned uint64 // the last view in which it had
	dead     bool
	knows    bool // that the job is over
}

// New returns a job that begins with a view.
func New(first *membership.View) *Job {
	j := new(Job)
	j.Reset(first)
	return j
}

// Reset makes it what New returns, in the memory that it has.
func (j *Job) Reset(first *membership.View) { *j = Job{view: first, lives: j.lives[:0]} }

// find returns the place of a life, and whether anything is known of it.
func (j *Job) find(m membership.Member) (int, bool) {
	return slices.BinarySearchFunc(j.lives, m, func(l life, m membership.Member) int {
		if l.ID != m.ID {
			return cmp.Compare(l.ID, m.ID)
		}
		return cmp.Compare(l.Incarnation, m.Incarnation)
	})
}

// known returns what is known of a life.
func (j *Job) known(m membership.Member) life {
	if i, ok := j.find(m); ok {
		return j.lives[i]
	}
	return life{Member: m}
}

// note returns where to note something of a life.
func (j *Job) note(m membership.Member) *life {
	i, ok := j.find(m)
	if !ok {
		j.lives = slices.Insert(j.lives, i, life{Member: m})
	}
	return &j.lives[i]
}

// Report says that nobody adopts tasks of the dead: they hold up nothing, and every live
// process has to return, once.
func (j *Job) Report() { j.reports = true }

// Viewed takes note of a view. Processes may report views in any order.
func (j *Job) Viewed(v *membership.View) {
	if v.Number >= j.view.Number {
		j.view = v
	}
}

// Returned takes note of a process that has returned in a view. What was said earlier may
// come late.
func (j *Job) Returned(m membership.Member, view uint64) {
	l := j.note(m)
	l.returned = max(l.returned, view)
	j.latest = max(j.latest, view)
}

// Died takes note of a death.
func (j *Job) Died(m membership.Member) { j.note(m).dead = true }

// Learn takes note of what another coordinator has found: the job was over in a view.
func (j *Job) Learn(view uint64) { j.over = max(j.over, view) }

// Knows takes note of a process that knows that the job is over.
func (j *Job) Knows(m membership.Member) { j.note(m).knows = true }

// Known reports whether all who live in the latest view know that the job is over.
func (j *Job) Known() bool {
	return !slices.ContainsFunc(j.view.Members, func(m membership.Member) bool {
		l := j.known(m)
		return !l.dead && !l.knows
	})
}

// Verdict decides.
func (j *Job) Verdict() Verdict {
	switch {
	case j.over > 0:
		return Over
	case j.latest <= j.view.Number && j.allReturned():
		return Over
	case slices.ContainsFunc(j.view.Members, func(m membership.Member) bool { return !j.known(m).dead }):
		return Going
	}
	return Abandoned
}

// allReturned reports whether all who own something have returned. If nobody has said who
// owns what, everybody does.
func (j *Job) allReturned() bool {
	for t, owner := range j.view.Owners {
		if m, ok := j.view.Find(owner); ok && !j.done(m, j.view.Since[t]) {
			return false
		}
	}
	if j.view.Owners != nil {
		return true
	}
	return !slices.ContainsFunc(j.view.Members, func(m membership.Member) bool { return !j.done(m, j.view.Number) })
}

// done reports whether a process has nothing more to do of what a view has given to it.
func (j *Job) done(m membership.Member, since uint64) bool {
	l := j.known(m)
	if j.reports {
		return l.dead || l.returned > 0
	}
	return l.returned >= since
}

// Latest is the number of the latest view that is known, or of the one in which the job was over.
func (j *Job) Latest() uint64 { return cmp.Or(j.over, j.view.Number) }

// Clone returns a copy that shares nothing that changes.
func (j *Job) Clone() *Job {
	c := *j
	c.lives = slices.Clone(j.lives)
	return &c
}

// Returns lists who has returned, in the order of ids, and in which view.
func (j *Job) Returns(yield func(membership.Member, uint64) bool) {
	for _, l := range j.lives {
		if l.returned > 0 && !yield(l.Member, l.returned) {
			return
		}
	}
}
