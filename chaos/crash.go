package chaos

import (
	"github.com/coppice-go/coppice/protocol"
)

// placeCrashes draws which processes may crash, and after how many effects. Crash points matter only between
// effects, so drawing the number of effects instead of a step gives the first send and the last the same
// chance.
func (w *World[S, M]) placeCrashes() {
	if w.setup.Crashes == 0 {
		return
	}
	for range w.choices.Choose(w.setup.Crashes + 1) {
		w.fate.crashes++
		n := 0
		for r := range w.procs {
			if w.mayCrash(r) {
				n++
			}
		}
		if n == 0 {
			return
		}
		victim := w.choices.Choose(n)
		after := w.choices.skewed(w.usual.one)
		for r := range w.procs {
			if !w.mayCrash(r) {
				continue
			}
			if victim == 0 {
				w.procs[r].crashAfter = int32(after)
				w.enableCrash(r)
				break
			}
			victim--
		}
	}
}

// mayCrash reports whether r can still crash.
func (w *World[S, M]) mayCrash(r int) bool {
	p := &w.procs[r]
	return p.life == alive && p.crashAfter < 0 &&
		(w.setup.MayCrash == nil || w.setup.MayCrash(protocol.Rank(r)))
}

func (w *World[S, M]) enableCrash(r int) {
	if w.procs[r].crashAfter == w.procs[r].effects() {
		w.add(happening(crash, r, 0))
	}
}

func (w *World[S, M]) crash(p *proc[S, M], e event) {
	r := e.at()
	if w.cfg.Dying != nil {
		w.cfg.Dying(w, protocol.Rank(r))
	}
	w.crashes++
	if p.rest == Waiting {
		w.waiting--
	}
	w.fate.bury(r, w.testament(p))
	p.life, p.rest = crashed, Done
	if w.script != nil {
		w.script.crashed(e)
	}
	w.forget(r)
	w.unfence(r)
	w.unmeet(r)
	if w.setup.LossyCrashes {
		w.lose(r)
	}
	w.thaw(r)
	if w.cfg.Detect {
		w.announce(r)
	}
	w.placeRestart(e)
}

// lose drops the last of the messages in flight from r.
func (w *World[S, M]) lose(r int) {
	for to := range w.procs {
		ch := &w.channels[r*w.p+to]
		n := w.choices.Choose(ch.len() + 1)
		if n == 0 {
			continue
		}
		ch.queue = ch.queue[:len(ch.queue)-n]
		ch.signed = false
		if ch.len() == 0 {
			ch.clear()
			w.drop(happening(receive, to, r))
		}
		w.note("… and the last of its messages to p%d are lost: %d", to, n)
	}
}

// forget drops everything that could still happen at r.
func (w *World[S, M]) forget(r int) {
	w.agenda.events = without(w.agenda.events, r)
	w.held = without(w.held, r)
	w.recount()
	for from := range w.procs {
		ch := &w.channels[from*w.p+r]
		ch.clear()
		ch.signed = false
	}
}
