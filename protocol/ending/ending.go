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
package ending

import (
	"maps"
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
	view     *membership.View             // the latest that is known
	returned map[membership.Member]uint64 // the last view in which it had
	dead     map[membership.Member]bool
	adopts   bool // tasks of the dead are run by others
}

// New returns a job that begins with a view.
func New(first *membership.View) *Job {
	return &Job{view: first, returned: map[membership.Member]uint64{}, dead: map[membership.Member]bool{}, adopts: true}
}

// Report says that nobody adopts tasks of the dead: they hold up nothing, and every live
// process has to return, once.
func (j *Job) Report() { j.adopts = false }

// Viewed takes note of a view. Processes may report views in any order.
func (j *Job) Viewed(v *membership.View) {
	if v.Number >= j.view.Number {
		j.view = v
	}
}

// Returned takes note of a process that has returned in a view. What was said earlier may
// come late.
func (j *Job) Returned(m membership.Member, view uint64) {
	j.returned[m] = max(j.returned[m], view)
}

// Died takes note of a death.
func (j *Job) Died(m membership.Member) { j.dead[m] = true }

// Verdict decides.
func (j *Job) Verdict() Verdict {
	latest := uint64(0)
	for _, view := range j.returned {
		latest = max(latest, view)
	}
	switch {
	case latest <= j.view.Number && j.allReturned():
		return Over
	case slices.ContainsFunc(j.view.Members, func(m membership.Member) bool { return !j.dead[m] }):
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
	if !j.adopts {
		return j.dead[m] || j.returned[m] > 0
	}
	return j.returned[m] >= since
}

// Latest is the number of the latest view that is known.
func (j *Job) Latest() uint64 { return j.view.Number }

// Clone returns a copy that shares nothing that changes.
func (j *Job) Clone() *Job {
	c := *j
	c.returned, c.dead = maps.Clone(j.returned), maps.Clone(j.dead)
	return &c
}

// Returns lists who has returned, in the order of ids, and in which view.
func (j *Job) Returns(yield func(membership.Member, uint64) bool) {
	members := slices.SortedFunc(maps.Keys(j.returned), func(a, b membership.Member) int {
		if a.ID != b.ID {
			return int(a.ID) - int(b.ID)
		}
		return int(a.Incarnation) - int(b.Incarnation)
	})
	for _, m := range members {
		if !yield(m, j.returned[m]) {
			return
		}
	}
}
