package chaos

import "slices"

// A cut parts the processes, and their agents, into two sides. What crosses it waits: messages, Death
// notices, fencing. When it heals, everything that waited can happen.

// sidesMax is the largest group whose sides are drawn in one choice.
const sidesMax = 16

// cut parts the processes.
func (w *World[S, M]) cut() {
	if w.fate.isCut || w.p < 2 {
		return
	}
	w.fate.loud = true
	w.fate.blows++
	w.fate.parted++
	w.chooseSides()
	w.fate.oneWay = w.setup.OneWay && w.choices.Choose(2) == 1
	w.fate.isCut, w.fate.ticks = true, 0
	if w.fate.free {
		w.fate.cuts++
	}
	w.hold(w.crosses)
	for r := range w.procs {
		w.suspectAcross(r)
	}
	w.recount()
	w.place(happening(heal, 0, 0))
	if w.script != nil {
		var sides [2][]int
		for r, other := range w.fate.side {
			if other {
				sides[1] = append(sides[1], r)
			} else {
				sides[0] = append(sides[0], r)
			}
		}
		w.script.cut(sides[0], sides[1], w.fate.oneWay)
	}
}

// chooseSides draws the two sides: all bipartitions are equally likely. The last rank is on the first side.
func (w *World[S, M]) chooseSides() {
	side := w.fate.side
	clear(side)
	if w.p <= sidesMax {
		mask := 1 + w.choices.Choose(1<<(w.p-1)-1)
		for r := range side {
			side[r] = mask>>r&1 == 1
		}
		return
	}
	some := false
	for r := range w.p - 1 {
		side[r] = w.choices.Choose(2) == 1
		some = some || side[r]
	}
	if !some {
		side[0] = true
	}
}

// suspectAcross lets r be notified to suspect the processes on the other side.
func (w *World[S, M]) suspectAcross(r int) {
	if !w.cfg.DetectCuts || w.procs[r].rest == Done {
		return
	}
	for of := range w.procs {
		e := happening(suspect, r, of)
		if w.fate.parts(of, r) && !w.pending(e) {
			w.enable(e)
		}
	}
}

// waits reports whether e must wait: until the cut heals, until a process begins, or forever.
func (w *World[S, M]) waits(e event) bool {
	return (w.fate.settled || w.fate.awaited > 0) && w.stands(e) || w.fate.isCut && w.crosses(e)
}

// crosses reports whether e must wait until the cut heals.
func (w *World[S, M]) crosses(e event) bool {
	switch e.kind() {
	case receive, death, fenced, heard:
		return w.fate.parts(e.from(), e.at())
	}
	return false
}

// parts reports whether nothing from one process reaches the other.
func (f *fate[M]) parts(from, to int) bool {
	return f.side[from] != f.side[to] && !(f.oneWay && f.side[to])
}

// heal ends the cut. Suspect notices that have not been delivered may still come.
func (w *World[S, M]) heal() {
	if !w.fate.isCut {
		return
	}
	w.fate.loud = true
	w.fate.isCut, w.fate.ticks = false, 0
	clear(w.fate.side)
	w.release()
	w.drop(happening(heal, 0, 0))
	w.note("the cut heals")
}

// release lets every held event happen that need not wait anymore.
func (w *World[S, M]) release() {
	kept := w.held[:0]
	for _, e := range w.held {
		if w.waits(e) {
			kept = append(kept, e)
		} else {
			w.agenda.add(e.ageless())
		}
	}
	w.held = kept
	w.recount()
}

// hold moves the events for which so reports true off the agenda until something else lets them happen.
func (w *World[S, M]) hold(so func(event) bool) {
	w.agenda.events = slices.DeleteFunc(w.agenda.events, func(e event) bool {
		waits := so(e)
		if waits {
			w.held = append(w.held, e)
		}
		return waits
	})
}

// healOrEnd heals the cut because the run cannot end with it or, with CutsStay, ends the run.
func (w *World[S, M]) healOrEnd() bool {
	if w.cfg.CutsStay {
		return false
	}
	w.heal()
	return true
}

// enable makes e something that can happen, now or once it need not wait anymore.
func (w *World[S, M]) enable(e event) {
	if w.waits(e) {
		w.held = append(w.held, e)
		return
	}
	w.add(e)
}

// pending reports whether e can happen, now or when it need not wait anymore.
func (w *World[S, M]) pending(e event) bool {
	return w.agenda.index(e) >= 0 || slices.ContainsFunc(w.held, func(f event) bool { return f.ageless() == e })
}

// drop removes e, whether it is on the agenda or held.
func (w *World[S, M]) drop(e event) {
	if i := w.agenda.index(e); i >= 0 {
		w.remove(i)
	} else if i := slices.IndexFunc(w.held, func(f event) bool { return f.ageless() == e }); i >= 0 {
		w.held = slices.Delete(w.held, i, i+1)
	}
}

// Cut reports whether the processes are cut into two sides.
func (w *World[S, M]) Cut() bool { return w.fate.isCut }
