package chaos

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// A freeze ends the faults of a run and tests that the rest of the group makes progress: eventually
// everything that can work works, and does not wait for what does not (TigerBeetle's liveness mode). Events
// at a frozen process, and the messages it has sent, wait; the messages wait until the process crashes.

// freeze ends the faults and freezes some processes.
func (w *World[S, M]) freeze() {
	w.heal()
	for w.beginNext() {
	}
	w.fate.sure = w.fate.doubts == 0 && w.fate.parted == 0 && w.fate.belated == 0
	w.fate.placed = w.fate.placed[:0]
	w.agenda.events = slices.DeleteFunc(w.agenda.events, w.isWhim)
	for r := range w.procs {
		w.procs[r].crashAfter = -1
	}
	w.fate.settled, w.fate.loud = true, true
	w.fate.blows++
	dead := w.chooseFrozen()
	w.fate.found = dead
	w.holdFrozen()
	for f, frozen := range w.fate.frozen {
		switch {
		case !frozen:
		case dead:
			w.add(happening(crash, f, 0))
		default:
			for r := range w.procs {
				if w.procs[r].rest != Done && !w.fate.frozen[r] {
					w.add(happening(suspect, r, f))
				}
			}
		}
	}
	w.recount()
	if w.script != nil {
		w.script.froze(w.fate.frozen, dead)
	}
}

// chooseFrozen draws which processes freeze, and whether they will be found dead. At least one process that
// may crash continues.
func (w *World[S, M]) chooseFrozen() (dead bool) {
	var may []int
	for r := range w.procs {
		if w.mayCrash(r) && w.procs[r].rest != Done {
			may = append(may, r)
		}
	}
	for range min(1+w.choices.Choose(w.setup.Frozen), len(may)-1) {
		i := w.choices.Choose(len(may))
		w.fate.frozen[may[i]] = true
		may = slices.Delete(may, i, i+1)
	}
	return w.cfg.Without == nil || !w.cfg.Without(w, w.fate.frozen) || w.choices.Choose(2) == 1
}

// holdFrozen holds back the events at frozen processes.
func (w *World[S, M]) holdFrozen() {
	w.hold(w.stands)
	for r, frozen := range w.fate.frozen {
		if p := &w.procs[r]; frozen {
			if p.rest == Waiting {
				w.waiting--
			}
			p.rest = Idle
		}
	}
}

// stands reports whether e waits for a process that is frozen or has yet to begin. Agents are never frozen.
func (w *World[S, M]) stands(e event) bool {
	switch e.kind() {
	case receive, heard:
		return w.still(e.at()) || w.still(e.from())
	case next, input, workDone, death, suspect, suspicion:
		return w.still(e.at())
	}
	return false
}

// still reports whether r takes no steps.
func (w *World[S, M]) still(r int) bool { return w.Frozen(protocol.Rank(r)) || w.isLate(r) }

// thaw releases what r, now dead, has sent, if r was frozen.
func (w *World[S, M]) thaw(r int) {
	if !w.Frozen(protocol.Rank(r)) {
		return
	}
	w.fate.frozen[r] = false
	w.release()
}

// endless returns the error of a run that takes too many steps.
func (w *World[S, M]) endless() error {
	if w.fate.settled {
		return fmt.Errorf("%w: no end after %d steps, though there are no more faults", ErrStalled, w.steps)
	}
	return fmt.Errorf("%w: no end after %d steps", ErrLivelock, w.steps)
}

// Frozen reports whether a process is frozen forever and not dead.
func (w *World[S, M]) Frozen(r protocol.Rank) bool { return w.fate.settled && w.fate.frozen[r] }

// Found reports whether the frozen processes are found dead; otherwise they are only suspected.
func (w *World[S, M]) Found() bool { return w.fate.found }

// Settled reports whether all faults have ended, and as sure whether until then no process had reason to
// suspect a live one.
func (w *World[S, M]) Settled() (settled, sure bool) { return w.fate.settled, w.fate.sure }
