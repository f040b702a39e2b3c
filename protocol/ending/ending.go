// Package ending decides when a job is over. The coordinator, jobs of goroutines and the
// chaos driver run it. Its API may change.
//
// A process has returned in a view when all tasks that it owns there have. A job is over when
// every process that owns tasks in the latest view has returned, in that view or in an earlier one
// since which it was given no tasks. Then every task has returned at some owner. Whether a
// process died after it returned does not matter, and need not be known. If it died before it returned, its tasks
// belong to other processes in a later view, which have not returned there.
//
// No process needs to report a view in time: a task moves only after its owner died or gave it
// up, and as long as the previous view counts, its owner there has either returned or is waited
// for. But if a process has returned in a view that no process has reported, tasks may have moved
// there, and the job waits for that view.
//
// A coordinator that is part of a process (Inside) may die while it tells the others that the job is over, and some of
// them leave at once. So it proceeds in three steps (Step). First it tells all processes that the job is over, which each
// acknowledges. When all live processes know that, it tells them that all know, which each acknowledges. Then it tells
// them that they may leave. A process keeps what it has heard (Process), and reports it to the successor of this
// coordinator (Learn).
//
// A process that has lost its quorum ends successfully if it knows that all know: the others have left, or end
// successfully, too. If it knows only that the job is over, no process has left, and the processes that continue without
// it may not know. They run its tasks again, and their operations may end in another way. Then it must not report
// success.
package ending

import (
	"cmp"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Verdict is what is known of a job's end.
type Verdict int

// The verdicts.
const (
	Going     Verdict = iota
	Over              // every task has returned
	Abandoned         // some have not, and no process of the latest view is alive
)

// Job is what a coordinator knows about the end of a job.
type Job struct {
	view    *membership.View // the latest known
	lives   []life           // lives of which something is known, in the order of ids
	latest  uint64           // latest view in which any has returned
	over    uint64           // view in which this coordinator or another has found the job to be over; 0: none has
	reports bool             // no process runs tasks of dead processes
	inside  protocol.Time    // above 0: the coordinator is part of a process, and waits that long for confirmations
	until   protocol.Time    // when it has waited long enough; 0: it does not wait yet
}

// life is what is known of one incarnation of a process.
type life struct {
	membership.Member
	returned uint64 // the last view in which it had returned
	joined   bool   // it has connected to the coordinator
	removed  bool   // a view has removed it
	dead     bool
	knows    bool // it knows that the job is over
	sure     bool // it knows that all know
}

// New returns a job that begins with a view.
func New(first *membership.View) *Job {
	j := new(Job)
	j.Reset(first)
	return j
}

// Reset makes j what New returns, in the memory that it has.
func (j *Job) Reset(first *membership.View) { *j = Job{view: first, lives: j.lives[:0]} }

// find returns the index of a life, and whether anything is known of it.
func (j *Job) find(m membership.Member) (int, bool) {
	if i := uint(m.ID); i < uint(len(j.lives)) && j.lives[i].Member == m { // as long as all ids are known, and one life of each
		return int(i), true
	}
	at, end := 0, len(j.lives)
	for at < end {
		if mid := (at + end) / 2; j.lives[mid].ID < m.ID || j.lives[mid].ID == m.ID && j.lives[mid].Incarnation < m.Incarnation {
			at = mid + 1
		} else {
			end = mid
		}
	}
	return at, at < len(j.lives) && j.lives[at].Member == m
}

// known returns what is known of a life.
func (j *Job) known(m membership.Member) life {
	if i, ok := j.find(m); ok {
		return j.lives[i]
	}
	return life{Member: m}
}

// note returns where to record something about a life.
func (j *Job) note(m membership.Member) *life {
	i, ok := j.find(m)
	if !ok {
		j.lives = slices.Insert(j.lives, i, life{Member: m})
	}
	return &j.lives[i]
}

// Report says that no process adopts tasks of the dead: dead processes delay nothing, and every live
// process has to return, once.
func (j *Job) Report() { j.reports = true }

// Inside says that the coordinator is part of a process, and may die with it. It waits for patience until processes
// confirm what they know.
func (j *Job) Inside(patience protocol.Time) { j.inside = patience }

// Viewed records a view. Processes may report views in any order.
func (j *Job) Viewed(v *membership.View) {
	if v == j.view || v.Number < j.view.Number {
		return
	}
	for _, m := range j.view.Members {
		if !v.Has(m) {
			j.note(m).removed = true
		}
	}
	j.view = v
}

// Returned records that a process has returned in a view. Earlier reports may
// arrive late.
func (j *Job) Returned(m membership.Member, view uint64) {
	l := j.note(m)
	l.returned = max(l.returned, view)
	j.latest = max(j.latest, view)
}

// Died records a death.
func (j *Job) Died(m membership.Member) { j.note(m).dead = true }

// Learn records what another coordinator has found: the job was over in a view.
func (j *Job) Learn(view uint64) { j.over = max(j.over, view) }

// Knows records that a process knows that the job is over.
func (j *Job) Knows(m membership.Member) { j.note(m).knows = true }

// Joined records that a process has connected to the coordinator, and may be admitted by a view that is not known yet.
// If it survived the others, and did not know that the job is over, it would run all tasks again. For the same reason
// the coordinator first tells a process that connects after the end that the job is over.
func (j *Job) Joined(m membership.Member) { j.note(m).joined = true }

// Sure records that a process knows that all know it.
func (j *Job) Sure(m membership.Member) {
	l := j.note(m)
	l.knows, l.sure = true, true
}

// IsSure reports whether a process has confirmed that it knows that all know.
func (j *Job) IsSure(m membership.Member) bool { return j.known(m).sure }

// Living lists the processes that must know that the job is over: live processes that are in the latest view, or have
// joined and were not removed.
func (j *Job) Living(yield func(membership.Member) bool) {
	for _, m := range j.view.Members {
		if !j.known(m).dead && !yield(m) {
			return
		}
	}
	for _, l := range j.lives {
		if l.joined && !l.dead && !l.removed && l.Incarnation > j.view.Last(l.ID) && !yield(l.Member) {
			return
		}
	}
}

// Aware reports whether a process has confirmed that it knows.
func (j *Job) Aware(m membership.Member) bool { return j.known(m).knows }

// Known reports whether all of these know. A member of the latest view that has died without knowing is one of them: it
// may have continued, in a view without the coordinator's process, and ended in another way. The next view shows it.
func (j *Job) Known() bool {
	for _, m := range j.view.Members {
		if l := j.known(m); l.dead && !l.knows {
			return false
		}
	}
	for m := range j.Living {
		if !j.known(m).knows {
			return false
		}
	}
	return true
}

// AllSure reports whether all of these know that all know.
func (j *Job) AllSure() bool {
	for m := range j.Living {
		if !j.known(m).sure {
			return false
		}
	}
	return true
}

// Step is what a coordinator does next about the end.
type Step int

// The steps.
const (
	Wait      Step = iota
	TellOver       // tell all processes that the job is over, in the view Latest
	TellKnown      // tell all processes that all know it
	LetLeave       // tell all processes to leave
)

// Step decides. What a coordinator has once found stays true, whatever it learns about later views.
func (j *Job) Step(now protocol.Time) Step {
	switch j.Verdict() {
	case Going:
		return Wait
	case Over:
		j.over = j.Latest()
		switch {
		case j.inside == 0 || j.until > 0 && now >= j.until:
		case !j.Known():
			return j.await(now, TellOver)
		case !j.AllSure():
			return j.await(now, TellKnown) // a successor that learned of the end from another process may begin here
		}
	}
	return LetLeave
}

// await begins to wait, unless that has begun, for processes that do not confirm a step.
func (j *Job) await(now protocol.Time, s Step) Step {
	if j.until == 0 {
		j.until = now + j.inside
	}
	return s
}

// Until is when Step may decide otherwise though nothing has come; 0: never.
func (j *Job) Until() protocol.Time { return j.until }

// Process is what a process knows of the end. It reports that to the coordinator from which it learned it, and to every
// successor of that coordinator.
type Process struct {
	over uint64
	sure bool
}

// Hear records that a coordinator has found the job to be over in a view, and whether all know. Coordinators that do not
// know of each other may have found it in two views: the later counts.
func (p *Process) Hear(view uint64, known bool) {
	p.over, p.sure = max(p.over, view), p.sure || known
}

// Over returns the view in which the job was over, as far as the process knows; 0: it was not.
func (p *Process) Over() uint64 { return p.over }

// Sure returns that view if the process knows that all know, otherwise 0. If it is not 0 and the process has lost its
// quorum or its coordinator, the process ends successfully in that view.
func (p *Process) Sure() uint64 {
	if !p.sure {
		return 0
	}
	return p.over
}

// Verdict returns the verdict.
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

// allReturned reports whether all owners of tasks have returned. If the owners are unknown,
// every process counts as one.
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

// done reports whether a process has done all that a view has given to it.
func (j *Job) done(m membership.Member, since uint64) bool {
	l := j.known(m)
	if j.reports {
		return l.dead || l.returned > 0
	}
	return l.returned >= since
}

// Latest returns the number of the latest known view, or of the view in which the job was over.
func (j *Job) Latest() uint64 { return cmp.Or(j.over, j.view.Number) }

// Clone returns a copy that shares nothing that changes.
func (j *Job) Clone() *Job {
	c := *j
	c.lives = slices.Clone(j.lives)
	return &c
}

// Sign adds everything that j knows to a fingerprint.
func (j *Job) Sign(add func(uint64)) {
	add(j.view.Number)
	add(j.over)
	for _, l := range j.lives {
		add(uint64(uint32(l.ID))<<32 | uint64(l.Incarnation))
		add(l.returned<<4 | bit(l.removed)<<3 | bit(l.joined)<<2 | bit(l.dead)<<1 | bit(l.knows))
		add(bit(l.sure))
	}
	add(uint64(len(j.lives)))
	add(uint64(j.until))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Returns lists the processes that have returned, in the order of ids, and in which view.
func (j *Job) Returns(yield func(membership.Member, uint64) bool) {
	for _, l := range j.lives {
		if l.returned > 0 && !yield(l.Member, l.returned) {
			return
		}
	}
}
