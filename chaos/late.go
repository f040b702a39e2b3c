package chaos

import "github.com/coppice-go/coppice/protocol"

// A late process has not begun: nothing happens at it, and what is for it waits. When it begins, the others
// hear of it and it hears of them, as when real processes find each other.

// waitsMax is how often time passes, at most, before a late process begins.
const waitsMax = 16

// chooseLate draws which processes begin late, and when.
func (w *World[S, M]) chooseLate() {
	for range w.choices.Choose(w.setup.Late + 1) {
		r := w.choices.Choose(w.p)
		if w.fate.late[r] || w.procs[r].life != alive || w.setup.MayCrash != nil && !w.setup.MayCrash(protocol.Rank(r)) {
			continue
		}
		w.fate.late[r] = true
		w.fate.awaited++
		w.note("p%d begins late", r)
		w.place(happening(begin, r, 0))
	}
	w.fate.belated = w.fate.awaited
	w.hold(w.waits)
	w.recount()
	for r := range w.procs {
		w.meet(r)
	}
}

// isLate reports whether r has yet to begin.
func (w *World[S, M]) isLate(r int) bool { return w.fate.awaited > 0 && w.fate.late[r] }

// Late returns how many processes had not begun at first.
func (w *World[S, M]) Late() int { return w.fate.belated }

// Awaited reports whether r has yet to begin.
func (w *World[S, M]) Awaited(r protocol.Rank) bool { return w.isLate(int(r)) }

// Awaits reports whether any process has yet to begin.
func (w *World[S, M]) Awaits() bool { return w.fate.awaited > 0 }

// begin lets r begin if it is late.
func (w *World[S, M]) begin(r int) {
	if !w.isLate(r) {
		return
	}
	w.fate.loud = true
	w.came(r)
	w.drop(happening(begin, r, 0))
	life := uint32(1)
	if w.cfg.Begins != nil {
		life = w.cfg.Begins(w, protocol.Rank(r))
	}
	if life == 1 {
		w.note("p%d begins", r)
		w.release()
		w.meet(r)
		return
	}
	p := &w.procs[r]
	w.forget(r)
	w.fate.bury(r, w.testament(p))
	p.life, p.rest = crashed, Done
	w.announce(r)
	if life > 1 {
		w.restart(p, r)
	} else {
		w.note("p%d never begins", r)
	}
}

// came records that r is no longer late.
func (w *World[S, M]) came(r int) {
	w.fate.late[r] = false
	w.fate.awaited--
}

// beginNext lets the first late process begin. It returns false if there is none.
func (w *World[S, M]) beginNext() bool {
	for r := range w.procs {
		if w.isLate(r) {
			w.begin(r)
			return true
		}
	}
	return false
}

// meet lets r hear of all others that have begun, and them of r.
func (w *World[S, M]) meet(r int) {
	if w.setup.Late == 0 || w.isLate(r) || w.procs[r].rest == Done {
		return
	}
	for o := range w.procs {
		if o == r || w.isLate(o) || w.procs[o].life != alive {
			continue
		}
		w.hearsOf(r, o)
		if w.procs[o].rest != Done {
			w.hearsOf(o, r)
		}
	}
}

// hearsOf lets one process hear of another.
func (w *World[S, M]) hearsOf(at, of int) {
	if e := happening(heard, at, of); !w.pending(e) {
		w.enable(e)
	}
}

// unmeet drops the pending news of r, now dead.
func (w *World[S, M]) unmeet(r int) {
	if w.isLate(r) {
		w.came(r)
		w.drop(happening(begin, r, 0))
	}
	if w.setup.Late == 0 {
		return
	}
	for o := range w.procs {
		w.drop(happening(heard, o, r))
	}
}
