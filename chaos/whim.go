package chaos

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// A whim is an event that may come at any moment and need never come: a crash, a restart, a cut and its end,
// a wrong suspicion, the end of all faults.
//
// Drawn like other events, whims would nearly all come at the start of a run. So Random places them: it draws
// after how many effects (for a crash, effects of its process; for the others, of all) each becomes something
// that can happen. In searches that explore every schedule, whims are free instead: all whims that the
// configuration still allows can happen all the time. The menu of what can happen then lists what is due
// first, oldest first, so that 0 stays the ordinary choice. The first choice of a run, which is Init's seed,
// decides between the two: free stands for seed 0 and free whims.
// for seed 0 and free whims.
const free uint64 = 0x66726565 << 24

// placement is a whim that can happen after a given number of effects.
type placement struct {
	event event
	after int
}

// placeFate draws cuts and wrong suspicions.
func (w *World[S, M]) placeFate() {
	if w.setup.Cuts > 0 {
		for range w.choices.Choose(w.setup.Cuts + 1) {
			w.place(happening(cut, 0, 0))
		}
	}
	if w.setup.Suspicions > 0 && w.p > 1 {
		for range w.choices.Choose(w.setup.Suspicions + 1) {
			at := w.choices.Choose(w.p)
			from := w.choices.Choose(w.p - 1)
			if from >= at {
				from++
			}
			w.place(happening(suspicion, at, from))
		}
	}
	if w.setup.Frozen > 0 && w.choices.Choose(2) == 1 {
		w.place(happening(freeze, 0, 0))
	}
	if w.setup.Late > 0 {
		w.chooseLate()
	}
}

// place draws when e becomes something that can happen.
func (w *World[S, M]) place(e event) {
	if w.fate.free || w.fate.settled {
		return
	}
	w.fate.placed = append(w.fate.placed, placement{e, w.fate.effects + w.choices.skewed(w.usual.all)})
	w.enablePlaced()
}

// enablePlaced makes the whims that are placed here something that can happen.
func (w *World[S, M]) enablePlaced() {
	kept := w.fate.placed[:0]
	for _, one := range w.fate.placed {
		e := one.event
		switch {
		case one.after > w.fate.effects:
			kept = append(kept, one)
		case e.kind() == heal && !w.fate.isCut:
		case e.kind() == suspicion && w.procs[e.at()].rest == Done:
		case e.kind() == begin && !w.isLate(e.at()):
		default:
			w.enable(e)
		}
	}
	w.fate.placed = kept
}

// bringForward makes the next whim something that can happen now, at what would be the end of the run: a
// group may do nothing at all until a fault comes. It returns false if this is the end.
func (w *World[S, M]) bringForward() bool {
	if !w.cfg.eventful() {
		return false
	}
	next, crash := protocol.Never, -1
	for _, one := range w.fate.placed {
		next = min(next, protocol.Time(one.after))
	}
	for r := range w.procs {
		p := &w.procs[r]
		if early := protocol.Time(p.crashAfter - p.effects()); early > 0 && p.life == alive && p.rest != Done &&
			early < next-protocol.Time(w.fate.effects) {
			next, crash = early+protocol.Time(w.fate.effects), r
		}
	}
	switch {
	case next == protocol.Never:
		return false
	case crash >= 0:
		w.procs[crash].crashAfter = w.procs[crash].effects()
		w.enableCrash(crash)
	default:
		w.fate.effects = int(next)
		w.enablePlaced()
	}
	return true
}

// placeRestart draws whether and when a crashed process comes back.
func (w *World[S, M]) placeRestart(e event) {
	w.fate.loud = true
	switch {
	case w.fate.free && e.kind() == crash:
		w.fate.crashes++
	case !w.fate.free && !w.fate.settled && w.fate.restarts < w.setup.Restarts && w.choices.Choose(2) == 1:
		w.fate.restarts++
		w.place(happening(restart, e.at(), 0))
	}
}

// placeNextCrash draws whether and when a process that came back crashes again.
func (w *World[S, M]) placeNextCrash(p *proc[S, M], r int) {
	if w.fate.free || w.fate.crashes >= w.setup.Crashes || !w.mayCrash(r) || w.choices.Choose(2) == 0 {
		return
	}
	w.fate.crashes++
	p.crashAfter = p.effects() + int32(w.choices.skewed(w.usual.one))
	w.enableCrash(r)
}

// isWhim reports whether e, on the agenda, may come and is not due.
func (w *World[S, M]) isWhim(e event) bool {
	switch e.kind() {
	case restart, cut, heal, suspicion, freeze, begin:
		return true
	case crash:
		return !w.Frozen(protocol.Rank(e.at())) // a frozen process that is found dead is due to crash
	case suspect: // it need not come once its cut has healed
		return !w.Frozen(protocol.Rank(e.from())) && (!w.fate.isCut || !w.fate.parts(e.from(), e.at()))
	}
	return false
}

func (w *World[S, M]) add(e event) {
	if w.isWhim(e) {
		w.whims++
	}
	w.agenda.add(e)
}

// remove takes the i-th event off the agenda.
func (w *World[S, M]) remove(i int) {
	if w.isWhim(w.agenda.events[i]) {
		w.whims--
	}
	w.agenda.remove(i)
}

// recount counts the whims on the agenda.
func (w *World[S, M]) recount() {
	w.whims = 0
	for _, e := range w.agenda.events {
		if w.isWhim(e) {
			w.whims++
		}
	}
}

// take makes an event of the menu happen. It returns false if that was the end.
func (w *World[S, M]) take(e event) bool {
	w.steps++
	if e.kind() == pass {
		return w.passTime()
	}
	e = w.first(e)
	if i := w.agenda.index(e); i >= 0 {
		w.remove(i)
	}
	w.happen(e)
	return true
}

// menu appends everything that can happen in a run whose whims are free: what is due, oldest first; the
// passing of time or the end of the run, if allowed; whims. It also returns how many are due.
func (w *World[S, M]) menu(list []event) ([]event, int) {
	list = append(list, w.agenda.events...)
	slices.Sort(list) // by age
	late := 0
	for i, e := range list { // whims that are on the agenda go last
		list[i] = e.ageless()
		if w.isWhim(e) {
			late++
		}
	}
	if late > 0 {
		slices.SortStableFunc(list, func(a, b event) int { return w.rankOf(a) - w.rankOf(b) })
	}
	due := len(list) - late
	if due == 0 || w.eager && w.waiting > 0 {
		list = slices.Insert(list, due, happening(pass, 0, 0))
	}
	return w.whimsNow(list), due
}

func (w *World[S, M]) rankOf(e event) int {
	if w.isWhim(e) {
		return 1
	}
	return 0
}

// whimsNow appends the possible whims that are not on the agenda.
func (w *World[S, M]) whimsNow(list []event) []event {
	for r := range w.procs {
		p := &w.procs[r]
		switch {
		case p.life == alive && p.rest != Done && w.fate.crashes < w.setup.Crashes &&
			(w.setup.MayCrash == nil || w.setup.MayCrash(protocol.Rank(r))):
			list = append(list, happening(crash, r, 0))
		case p.life == crashed && w.fate.restarts < w.setup.Restarts:
			list = append(list, happening(restart, r, 0))
		}
	}
	if w.fate.isCut {
		list = append(list, happening(heal, 0, 0))
	} else if w.fate.cuts < w.setup.Cuts && w.p > 1 {
		list = append(list, happening(cut, 0, 0))
	}
	if w.fate.suspected < w.setup.Suspicions {
		for at := range w.procs {
			if w.procs[at].rest == Done {
				continue
			}
			for from := range w.procs {
				if from != at {
					list = append(list, happening(suspicion, at, from))
				}
			}
		}
	}
	return list
}
