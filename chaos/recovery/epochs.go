package recovery

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/chaos/replay"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// What must hold of epochs, besides the bits of all tasks.
var (
	errEpochs = errors.New("a task goes on from another epoch than others")
	errCopies = errors.New("a task goes on from a state of which there were never enough copies")
	errLoss   = errors.New("a task is given up, though somebody has its state")
	errLosing = errors.New("a task is lost, though some live of those who had its state when there were enough copies")
)

// checkResumed checks a task that r resumes from a state: in a view all tasks that resume go on from the same
// epoch, and the tasks that are not run again are in it, or wait for it.
func checkResumed(w *replayWorld, r protocol.Rank, m replayMessage) error {
	epoch := m.Copy.Epoch
	if kept, _ := keepers(w, m.Copy, w.State(r).View()); kept == 0 && !jobOf(w).Stored() {
		return fmt.Errorf("%w: the %v", errCopies, m.Copy.Key)
	}
	for other := range jobOf(w).Coordinator() {
		for _, d := range w.Delivered(other) {
			if e := d.Msg; e.Kind == replay.Resumed && e.View == m.View && e.Copy.Epoch != epoch {
				return fmt.Errorf("%w: p%d and p%d in view %d from %d and %d", errEpochs, r, other, m.View, epoch, e.Copy.Epoch)
			}
		}
		if !w.Alive(other) {
			continue
		}
		for t := range protocol.Rank(jobOf(w).Program().Tasks) {
			at, ok := w.State(other).Stands(t)
			if ok && !at.Behind && at.Epoch != epoch && (at.Epoch+1 != epoch || !at.Saving) {
				return fmt.Errorf("%w: task %d from %d, task %d is in %d", errEpochs, m.Copy.Task, epoch, t, at.Epoch)
			}
		}
	}
	return nil
}

// checkLoss demands that no live process has the state or value for lack of which r loses a task, and that
// every process is dead that had it when there were enough copies: the owner then, and as many others as
// required. There never were enough copies if the task was lost before, the others went on without it, and
// every process that knew this is dead.
func checkLoss(w *replayWorld, r protocol.Rank, c *replay.Copy) error {
	view := w.State(r).View()
	for other := range jobOf(w).Coordinator() {
		if w.Alive(other) && !lingers(w, other, view) && w.State(other).Holds(c) {
			return fmt.Errorf("%w: p%d has the %v", errLoss, other, c.Key)
		}
	}
	l := observer(w)
	if kept, left := keepers(w, c, view); left > 0 || kept == 0 && (l == nil || !l.lost) {
		return fmt.Errorf("%w: the %v, %d of %d", errLosing, c.Key, left, kept)
	}
	return nil
}

// keepers counts the processes that had a copy when there were enough, and how many of them are alive.
func keepers(w *replayWorld, c *replay.Copy, view *membership.View) (all, left int) {
	for r := range jobOf(w).Coordinator() {
		for _, d := range w.Delivered(r) {
			if d.Msg.Kind != replay.Complete || d.Msg.Copy.Key != c.Key {
				continue
			}
			for _, m := range d.Msg.Holders {
				all++
				if lives(w, m) && !lingers(w, m.ID, view) {
					left++
				}
			}
		}
	}
	return all, left
}

// lingers reports whether a process has handed over its tasks and copies, and a view, of which it may not
// have heard, has removed it: it ends soon.
func lingers(w *replayWorld, r protocol.Rank, view *membership.View) bool {
	m := w.State(r).Members()
	return m.Free() && (m.Out() || view.Number > m.View().Number && !view.Has(m.Self()))
}

// lives reports whether a life has not ended.
func lives(w *replayWorld, m membership.Member) bool {
	return w.Alive(m.ID) && uint32(w.Life(m.ID)) == m.Incarnation
}
