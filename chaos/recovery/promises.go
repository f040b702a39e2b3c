package recovery

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/replay"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// What must hold.
var (
	errBits     = errors.New("a task returns with other bits")
	errLives    = errors.New("two lives of one process are in a view")
	errTwice    = errors.New("a task is adopted that a live process owns")
	errKept     = errors.New("a process goes on with a task that is another's")
	errUnended  = errors.New("a live process does not come to the end")
	errReturned = errors.New("the job has ended, and a task has returned nowhere")
	errOutcomes = errors.New("an operation is aborted for some and not for others")
	errSteps    = errors.New("a run takes more steps than it may")
	errAfter    = errors.New("the job has ended twice, and not with the same")
	errBadly    = errors.New("a process knows that all know that the job is over, and ends with an error")
	errUnaware  = errors.New("a process leaves, and one that lives does not know that the job is over")
	errLeft     = errors.New("a process leaves that owns a task")
	errFree     = errors.New("a process departs, and what a task has saved is not where it should be")
	errAgain    = errors.New("a task is run again from before, though processes have only left")
	errGiven    = errors.New("a process that leaves is given a task, though another one stays")
	errWithout  = errors.New("a task is lost, though processes have only left, or fewer have died than had copies")
)

// jobOf returns the job of a run.
func jobOf(w *replayWorld) *replay.Job {
	if l := observer(w); l != nil {
		return l.Job
	}
	return w.Protocol().(*replay.Job)
}

// wishedDead returns the process that a Work asks to kill.
func wishedDead(m replayMessage) (protocol.Rank, uint64, bool) {
	if l := m.Letter.Letter; l != nil && m.Kind == replay.View && l.Kind == membership.Fence {
		return l.Who.ID, uint64(l.Who.Incarnation), true
	}
	return 0, 0, false
}

// calm reports whether no process had reason to suspect another.
func calm(w *replayWorld) bool { return w.Doubts() == 0 && w.Cuts() == 0 && w.Late() == 0 }

// begins returns the life in which a late process begins: the second if a view without its first life is
// open, and none if all processes that could add it are gone, or leave because the job is over: a coordinator
// refuses it then, or tells it so as it connects.
func begins(w *replayWorld, r protocol.Rank) uint32 {
	j := jobOf(w)
	if _, in := j.First().Find(r); !in {
		return 1
	}
	gone, left, removed := false, false, false
	for q := range protocol.Rank(w.P()) {
		_, first := j.First().Find(q)
		switch {
		case w.Awaited(q) || q == r:
		case !w.Alive(q) || w.Rest(q) == chaos.Done:
			gone = gone || first || q == j.Coordinator()
		case q == j.Coordinator():
			left = true
		case w.State(q).Leaves() > 0, tellsOver(w.State(q)):
			gone = true
		case w.State(q).View() != nil && !w.State(q).Out():
			left = true
			removed = removed || !w.State(q).View().Has(membership.Member{ID: r, Incarnation: 1})
		}
	}
	switch {
	case gone && !left:
		return 0
	case removed:
		if l := observer(w); l != nil {
			l.saw(removedLate)
		}
		return 2
	}
	return 1
}

// returns reports whether a process that died may come back: a coordinator that is apart tells who connects after the end that the job is
// over, before the process can join.
func returns(w *replayWorld, _ protocol.Rank) bool {
	j := jobOf(w)
	return j.Inside() || w.State(j.Coordinator()).Ending() == 0
}

// tellsOver reports whether a process, as the coordinator, tells others that the job is over.
func tellsOver(s *replay.State) bool {
	over, _ := s.Telling()
	return over
}

// without reports whether the processes that are not frozen are a majority of every view that any process is
// in or has accepted, even if all frozen processes outside it join it.
func without(w *replayWorld, frozen []bool) bool {
	for r := range jobOf(w).Coordinator() {
		if !w.Alive(r) || !w.State(r).Members().Member() {
			continue
		}
		_, next := w.State(r).Members().Accepted()
		for _, v := range []*membership.View{w.State(r).Members().View(), next} {
			if v != nil && !majority(w, v, frozen) {
				return false
			}
		}
	}
	return true
}

// majority reports whether the live, unfrozen members that stay are a majority of a view, not counting the members that leave.
func majority(w *replayWorld, v *membership.View, frozen []bool) bool {
	core, all := 0, len(v.Members)
	for r := range jobOf(w).Coordinator() {
		m, in := v.Find(r)
		switch {
		case frozen[r] && !in:
			all++
		case in && !frozen[r] && lives(w, m) && !w.State(r).Out() && w.State(r).Members().Leaving():
			all--
		case in && !frozen[r] && lives(w, m) && !w.State(r).Out():
			core++
		}
	}
	return 2*core > all
}

// claimBits claims, for the sender of a message, that these are the bits of the message's name.
func claimBits(m replayMessage) (key, value uint64, ok bool) {
	if m.Kind != replay.Data {
		return 0, 0, false
	}
	return said(m.Frame), m.Frame.Sum(), true
}

// witnessReplay returns what is wrong with what r has just delivered. A process that is out and does not know
// it may run what others run again.
func witnessReplay(w *replayWorld, r protocol.Rank) error {
	if !calm(w) {
		return nil
	}
	all := w.Delivered(r)
	switch m := all[len(all)-1].Msg; {
	case m.Result != nil && jobOf(w).Program().Onces() == 0:
		g := jobOf(w).Program()
		return checkBits(g, r, m.Result, g.Serial(m.Result.Aborted, nil))
	case m.Kind == replay.Resumed:
		return checkResumed(w, r, m)
	case m.Kind == replay.Loss:
		return checkLoss(w, r, m.Copy)
	case m.Kind == replay.Ended:
		return checkAware(w)
	case m.Letter.Letter != nil && m.Letter.Kind == membership.Opened:
		return checkAdopted(w, r, m.Letter.Base)
	}
	return nil
}

// checkBits compares what a task got with what tasks get without messages.
func checkBits(g *replay.Program, r protocol.Rank, a *replay.Attempt, serial [][]uint64) error {
	want := serial[a.Task]
	if slices.Equal(a.Digests, want) {
		return nil
	}
	at := 0
	for at < min(len(want), len(a.Digests)) && a.Digests[at] == want[at] {
		at++
	}
	what := "its end"
	if at < len(g.Calls) {
		what = g.Calls[at].String()
	}
	return fmt.Errorf("%w: task %d at p%d, begun in view %d, from operation %d on: %s", errBits, a.Task, r, a.View, at, what)
}

// checkAdopted checks the members of a view, and the tasks that r has adopted with it. The former owner of a
// task that has moved may still wait for the epoch that the view commits.
func checkAdopted(w *replayWorld, r protocol.Rank, v *membership.View) error {
	for i, m := range v.Members[1:] {
		if v.Members[i].ID == m.ID {
			return fmt.Errorf("%w: p%d, in %v", errLives, m.ID, v)
		}
	}
	for t, owner := range v.Owners {
		task := protocol.Rank(t)
		since, ok := w.State(r).Runs(task)
		if ok && owner != r {
			return fmt.Errorf("%w: task %d of p%d, at p%d", errKept, task, owner, r)
		}
		if !ok || since != v.Number {
			continue
		}
		for other := range jobOf(w).Coordinator() {
			if other == r || !w.Alive(other) || w.Rest(other) == chaos.Done { // one that came back after the end has yet to learn of it
				continue
			}
			at, ok := w.State(other).Stands(task)
			if ok && !(at.Saving && at.Epoch+1 == v.Epoch && w.State(other).View().Number < v.Number) {
				return fmt.Errorf("%w: task %d of p%d, by p%d", errTwice, task, other, r)
			}
		}
	}
	return nil
}

// checkAware demands that every live process in a view knows that the job is over when one leaves for that
// reason.
func checkAware(w *replayWorld) error {
	for r := range jobOf(w).Coordinator() {
		if !w.Alive(r) || w.Frozen(r) || w.State(r).KnowsOver() > 0 || w.State(r).Members().Free() { // a view has removed it, and it will learn of that
			continue
		}
		if v := w.State(r).View(); v != nil && v.Has(membership.Member{ID: r, Incarnation: w.Life(r)}) {
			return fmt.Errorf("%w: p%d, in %v", errUnaware, r, v)
		}
	}
	return nil
}

// check returns what is wrong at the end of a run.
func (r Job) check(w *replayWorld) error {
	if l := observer(w); l != nil {
		if r = l.run; l.err != nil {
			return l.err
		}
		l.ends(w)
	}
	g := jobOf(w).Program()
	if most := r.stepsMax(g.Messages(), g.Saves(), g.Onces()); w.Steps() > most {
		return fmt.Errorf("%w: %d, allowed are %d", errSteps, w.Steps(), most)
	}
	return checkReturned(w)
}

// checkReturned returns an error for a process that has not come to the end, or came to another result than
// the others.
func checkReturned(w *replayWorld) error {
	settled, sure := w.Settled()
	views := endings(w)
	left := len(views) > 0 // some process of the job
	for r := range jobOf(w).Coordinator() {
		left = left || w.Alive(r) && !w.Frozen(r) && w.Life(r) == 1 && !w.State(r).Out() && w.State(r).View() != nil
	}
	if !left {
		return nil
	}
	lost := false // a task is lost
	var unended error
	for r := range protocol.Rank(w.P()) {
		switch s := w.State(r); {
		case w.Alive(r) && w.Frozen(r) && s.Lost() != nil && s.View() != nil && len(views) > 0 && views[0] <= s.View().Number: // and it was there when the job ended
			lost = true
		case !w.Alive(r) || w.Frozen(r) || w.Life(r) > 1 || s.Out() && !calm(w) && !sure: // a later life may be too late
		case jobOf(w).Inside() && s.View() == nil: // it has come too late
		case s.Out() && s.Members().Leaving(): // others ended, and did not have to wait for it
		case s.Out() && sure:
			return fmt.Errorf("%w: p%d, which nobody suspected, is out: %w", chaos.ErrStalled, r, s.Err())
		case s.Err() != nil:
			return fmt.Errorf("p%d: %w", r, s.Err())
		case s.Lost() != nil && !(jobOf(w).Inside() && len(views) > 0 && calm(w)): // otherwise another process could have told it that the job is over
			lost = true
		case w.Rest(r) != chaos.Done && !(lost && r == jobOf(w).Coordinator()): // the coordinator waits for all tasks
			if unended != nil {
				continue
			}
			if unended = fmt.Errorf("%w: p%d, in %v", errUnended, r, s.View()); settled {
				unended = fmt.Errorf("%w: %w", chaos.ErrStalled, unended)
			}
		}
	}
	if unended != nil {
		return unended
	}
	if lost {
		return nil
	}
	var first []attempt
	for _, view := range views {
		last := lastAttempts(w, view)
		err := checkLast(jobOf(w).Program(), last)
		if l := observer(w); errors.Is(err, errReturned) && l != nil && l.lost {
			return nil // the end does not wait for a lost task, and every process that knew of it has died since
		}
		if err != nil {
			return err
		}
		if first == nil {
			first = last
		}
		if err := checkSame(w, first, last); err != nil {
			return err
		}
	}
	return nil
}

// endings returns the views in which the job has ended, in order: one if the coordinator has a rank of its
// own. If the coordinator is part of a process, some processes may have found the job to be over, and left,
// before others, which cannot know of them, find it over in a later view. A process that was told before it
// joined has no view of it.
func endings(w *replayWorld) (views []uint64) {
	if j := jobOf(w); !j.Inside() {
		if view := w.State(j.Coordinator()).Ending(); view > 0 {
			views = append(views, view)
		}
		return views
	}
	for r := range protocol.Rank(w.P()) {
		for _, d := range w.Delivered(r) {
			if d.Msg.Kind == replay.Ended && d.Msg.Letter.Base != nil && !slices.Contains(views, d.Msg.View) {
				views = append(views, d.Msg.View)
			}
		}
	}
	slices.Sort(views)
	return views
}

// checkSame demands that a job that has ended in two views has ended with the same results. If all processes
// that know what was aborted, and that the job is over, are beyond a cut, newcomers that outnumber them may
// run it again without knowing either.
func checkSame(w *replayWorld, one, other []attempt) error {
	if l := observer(w); l != nil && (!l.strict || !calm(w) && l.run.Joiners+l.run.Restarts > 0) {
		return nil // values of Once may have been drawn again
	}
	for t := range one {
		if !slices.Equal(one[t].Digests, other[t].Digests) {
			return fmt.Errorf("%w: task %d returns with other bits in view %d than in view %d", errAfter, t, other[t].View, one[t].View)
		}
	}
	return nil
}

// attempt is an attempt that has returned, and where.
type attempt struct {
	*replay.Attempt
	at protocol.Rank
}

// lastAttempts returns, by task, the returned attempt that began in the latest view up to the view in which
// the job ended.
func lastAttempts(w *replayWorld, end uint64) []attempt {
	last := make([]attempt, jobOf(w).Program().Tasks)
	for r := range protocol.Rank(w.P()) {
		for _, d := range w.Delivered(r) {
			if a := d.Msg.Result; a != nil && a.View <= end && (last[a.Task].Attempt == nil || last[a.Task].View < a.View) {
				last[a.Task] = attempt{a, r}
			}
		}
	}
	return last
}

// checkLast demands that every task has returned, with the same operations aborted, and with the right bits.
func checkLast(g *replay.Program, last []attempt) error {
	var onces [][]uint64
	for _, a := range last {
		if a.Attempt != nil && g.Onces() > 0 {
			onces = append(onces, a.Onces)
		}
	}
	for t, a := range last {
		switch {
		case a.Attempt == nil:
			return fmt.Errorf("%w: task %d", errReturned, t)
		case !slices.Equal(a.Aborted, last[0].Aborted):
			return fmt.Errorf("%w: %v for task 0, %v for task %d", errOutcomes, last[0].Aborted, a.Aborted, t)
		}
	}
	serial := g.Serial(last[0].Aborted, onces)
	for _, a := range last {
		if err := checkBits(g, a.at, a.Attempt, serial); err != nil {
			return err
		}
	}
	return nil
}

// stepsMax bounds a run of a program with M messages. Every attempt of a task sends what the task sends, and
// every view may have everything sent again: with K crashes at most (1+2K)·M messages among tasks, each of
// which is a step of the sender, one of the receiver, and one in which the receiver has nothing to do. The
// rest is for the views.
func (r Job) stepsMax(m, saves, onces int) int {
	k, n := r.Crashes, r.P+r.Joiners
	k += min(r.Suspicions+r.Cuts*n, n-1) + r.Restarts // a process that comes back makes a view, too
	k += r.Frozen + r.Late + saves                    // a save may move tasks
	k += 3 * r.Drains                                 // a view that says so, one that moves tasks and one without it
	if r.Inside {
		k += n // a process that leaves is dead for the others
	}
	steps := 3*(1+2*k)*m + 3*(1+k)*r.tasks() + 30*(1+k+r.Joiners)*(n+1)
	if r.Cancels > 0 { // all send records to all, and in every view again, with a word
		steps += 3*n*n*(r.Cancels+(k+r.Joiners)*(1+r.Cancels)) + 2*r.Cancels
	}
	if kept := saves + onces; kept > 0 {
		// A copy goes to all at most, is acknowledged, and handed over by all in a view; a sweep is
		// two messages a process.
		steps += 3 * (1 + k + r.Joiners) * (kept*r.tasks()*(3*n+2) + 2*n*(saves+1) + n*n)
	}
	if r.Suspicions+r.Cuts+r.Frozen+r.Late > 0 { // a suspected process is queried again and again
		steps += 1000 * n
	}
	return steps
}
