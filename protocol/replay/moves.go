package replay

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Moves (docs/decisions/2026-11-16-epochs.md, point 6). Tasks of the living move from those
// that own many to those that own few, such as who has joined. The rule:
//
//  1. The root of the sweep is the lowest process of the view, which proposes the next one.
//     If tasks are to be moved, it holds: it does not commit what all have saved.
//  2. When all have, it proposes a view of the same processes with other owners, which
//     says that the epoch is committed. To decide the view is to commit the epoch. If another
//     view is decided instead, nothing has moved; all say anew in it what they have saved.
//  3. If there is nothing to decide after all, it commits the epoch without a view.
//  4. Who opens a view gives up the tasks that are not its own there, and hands over the
//     copies of tasks that have moved, like those of the dead. Their new owner runs
//     them from the top, and resumes at that epoch.
//  5. What tasks of one process send each other before the first Save is logged, too: one
//     of them may go.
//
//  6. A task may come back to where it was, by a view that follows one that its process has
//     not opened: the new owner died. Others may have opened that view before, and sent
//     it what it was sent before; the attempt that waited there has dropped it. So its
//     process has it sent once more.
//
// Until a process has opened the view it does not know that the epoch is committed, so the
// attempt that it gives up then has never gone on from it.
//
// Cost: a view.

// hold says whether the root waits for a view with what all have saved.
func (s *State) hold() {
	s.epochs.sweep.Hold(s.job.moves && s.view.Members[0] == s.members.Self() && s.members.Unbalanced())
}

// wish has the epoch that all have saved committed: by a view that moves tasks or, if there
// will be none, without. It tells whether there is something to be done for that.
func (j *Job) wish(s *State) bool {
	e := &s.epochs
	epoch, ok := e.sweep.Complete()
	switch {
	case !ok:
		return false
	case e.wish < epoch:
		e.wish = epoch
		j.members.Balance(&s.members, epoch)
		return true
	case s.members.Decides():
		return false
	}
	j.members.Balance(&s.members, 0)
	e.sweep.Hold(false)
	return true
}

// moved tells whether a task has a new owner, or a new attempt at the same one.
func moved(before, now *membership.View, task protocol.Rank) bool {
	return before == nil || before.Since[task] != now.Since[task]
}

// giveAway gives up a task that is another's now, or that is run again here.
func (s *State) giveAway(number protocol.Rank) {
	s.tasks = slices.DeleteFunc(slices.Clone(s.tasks), func(t *task) bool { return t.number == number })
	if s.view.Owners[number] != s.self {
		return
	}
	for _, m := range s.view.Members {
		s.mail(m.ID, Message{Kind: Again, Epoch: &EpochMessage{Copy: &Copy{Task: number}, View: s.view.Since[number]}})
	}
}

// sendAgain sends a task once more what it was sent, unless the view is still to be opened
// since which it is run.
func (s *State) sendAgain(m *EpochMessage) {
	if s.view == nil || s.view.Since[m.Task] != m.View {
		return
	}
	for _, t := range s.tasks {
		t.again(m.Task)
	}
}
