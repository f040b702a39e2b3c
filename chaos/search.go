package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Exhaustive exploration of worlds with restarts, cuts, suspicion, testaments and fencing. It walks the World
// itself, one transition at a time, on copies.
//
// The reduction is that of exhaustive.go: what a process does up to the next thing that others may notice (a
// *stretch*) is moved right, next to that. What carries over, and why:
//
//   - Others notice a Send, a crash, a fencing, a restart (what is sent to a process before it is lost, after it
//     is not) and, for Witness, a Deliver. These close a stretch, and are never moved.
//   - The end of a cut, too, is never moved. All else is moved over it: nothing that can happen under the cut is
//     made impossible by its end, since a pending Suspect notice may still come later.
//   - A wrong suspicion is part of a stretch. The processes share the budget of suspicions, but the order in
//     which they spend it does not matter. A suspicion may be of an earlier life; otherwise a restart could not
//     be moved before it.
//   - A cut makes receiving impossible, so nothing can be moved over it. As for time with EagerTimers, every
//     process makes any part of a stretch before.
//
// What does not carry over is what exhaustive.go gains by computing stretches once per view, by settling once
// per combination of ends, by Cumulative, and by moving crashes to the end: all of them rely on a process's
// view consisting only of its own state, its inbox and the set of dead processes.
//
// With Step there is no reduction: it is called in every state.

// search explores worlds.
type search[S, M any] struct {
	exploration[S, M]
	worlds  []*World[S, M] // by depth; their memory is reused
	path    []taken
	whole   bool // every interleaving
	bounded bool // the number of delays is bounded; whole is set, too
}

// taken is a transition: an event and the choices made in it.
type taken struct {
	event   event
	choices []uint64
}

// phase is what the reduction lets happen next.
type phase struct {
	kind phaseKind
	rank int // of the process that makes a stretch or settles
	left int // delays
}

type phaseKind uint8

const (
	between     phaseKind = iota // anything may begin
	stretching                   // rank goes on until others notice
	settling                     // rank comes to rest; then the next rank; then time passes or the run ends
	interrupted                  // the same, but with any part of a stretch; then a cut, or time passes
)

// eventful reports whether the world needs this file because exhaustive.go cannot explore it.
func (cfg *Config[S, M]) eventful() bool {
	return cfg.Testament != nil || cfg.Restarts > 0 || cfg.Cuts > 0 || cfg.Suspicions > 0 || cfg.Fence != nil || cfg.Witness != nil || cfg.Claim != nil
}

func newSearch[S, M any](cfg *Config[S, M]) *search[S, M] {
	return &search[S, M]{exploration: newExploration(cfg), worlds: []*World[S, M]{newWorld(cfg)}, whole: cfg.Step != nil}
}

// run explores every setup, each with the given number of delays.
func (x *search[S, M]) run(delays int) (Report, error) {
	if err := searchable(x.cfg); err != nil {
		return Report{}, err
	}
	return x.setups(func() uint64 {
		w := x.worlds[0]
		x.prelude[0] = free
		w.choices.fromScript(x.prelude)
		if x.err = w.reset(); x.err != nil {
			return 0
		}
		x.path = x.path[:0]
		return x.explore(phase{left: delays})
	}, x.violated)
}

// searchable rejects states that cannot be copied or compared.
func searchable[S, M any](cfg *Config[S, M]) error {
	return cmp.Or(printable[S]("state", true), printable[M]("message", false))
}

// explore visits what can come after the world at the end of the path, and returns the number of ways to an
// end.
func (x *search[S, M]) explore(ph phase) uint64 {
	w := x.world()
	key := w.fingerprint(x.bounded).with(uint64(ph.kind)<<48 | uint64(ph.rank)<<24 | uint64(ph.left))
	if v, ok := x.seen[key]; ok {
		if v.legs > 0 {
			x.recurs(v.legs - 1)
		}
		return v.ways
	}
	if x.report.States >= uint64(x.cfg.statesMax()) {
		x.err = x.tooMany()
		return 0
	}
	x.report.States++
	if len(x.path) > x.cfg.stepsMax() {
		x.violated(fmt.Errorf("%w: no end after %d steps", ErrLivelock, len(x.path)))
		return 0
	}
	x.seen[key] = visit{legs: len(x.path) + 1}
	ways := uint64(0)
	menu, due := w.menu(nil)
	for i, e := range menu {
		if x.err == nil && x.allows(ph, e) {
			ways = saturating(ways, x.happens(ph, e, i > 0))
		}
	}
	for _, to := range x.turns(ph, menu, due) {
		if x.err == nil {
			ways = saturating(ways, x.explore(to))
		}
	}
	x.seen[key] = visit{ways: ways}
	return ways
}

// world returns the world at the end of the path.
func (x *search[S, M]) world() *World[S, M] { return x.worlds[len(x.path)] }

// allows reports whether e is tried in this phase.
func (x *search[S, M]) allows(ph phase, e event) bool {
	k := e.kind()
	everybody := k == pass || k == cut || k == heal
	switch {
	case x.whole:
		return true
	case ph.kind == between:
		return !everybody || k == heal
	case ph.kind == stretching:
		return !everybody && e.at() == ph.rank
	case ph.rank < x.cfg.P:
		return !everybody && e.at() == ph.rank && k != crash && k != fenced && k != restart
	case ph.kind == settling:
		return k == pass
	default:
		return k == cut || k == pass && x.cfg.EagerTimers
	}
}

// turns lists the phases that may follow without anything happening.
func (x *search[S, M]) turns(ph phase, menu []event, due int) (to []phase) {
	switch {
	case x.whole || ph.rank == x.cfg.P:
	case ph.kind == between:
		to = append(to, phase{kind: settling})
		if w := x.world(); x.cfg.EagerTimers || !w.fate.isCut && w.fate.cuts < x.cfg.Cuts {
			to = append(to, phase{kind: interrupted})
		}
	case ph.kind == interrupted || ph.kind == settling && atRest(ph.rank, menu[:due]):
		to = append(to, phase{kind: ph.kind, rank: ph.rank + 1})
	}
	return to
}

// atRest reports whether nothing is due at r.
func atRest(r int, due []event) bool {
	return !slices.ContainsFunc(due, func(e event) bool { return e.at() == r })
}

// happens tries e with every choice made in it. An extraordinary event or choice costs a delay.
func (x *search[S, M]) happens(ph phase, e event, extraordinary bool) uint64 {
	if x.bounded && extraordinary && ph.left == 0 {
		return 0
	}
	if len(x.worlds) == len(x.path)+1 {
		x.worlds = append(x.worlds, newWorld(x.cfg))
	}
	from, w := x.worlds[len(x.path)], x.worlds[len(x.path)+1]
	ways := uint64(0)
	for script := []uint64{}; script != nil && x.err == nil; {
		w.become(from)
		w.choices.enumerate(script)
		x.path = append(x.path, taken{e, script})
		w.fate.loud = false
		goesOn := w.take(e)
		made := append([]uint64(nil), w.choices.made...)
		script = w.choices.following()
		x.path[len(x.path)-1].choices = made
		to := ph
		if x.bounded && (extraordinary || len(trimmed(made)) > 0) {
			to.left--
		}
		if to.left >= 0 {
			ways = saturating(ways, x.come(to, e, goesOn))
		}
		if x.err == nil {
			x.path = x.path[:len(x.path)-1]
		}
	}
	return ways
}

// come continues after a transition of phase ph.
func (x *search[S, M]) come(ph phase, e event, goesOn bool) uint64 {
	x.report.Transitions++
	w := x.world()
	if w.verdict != nil {
		x.violated(w.verdict)
		return 0
	}
	if !goesOn {
		return x.end(w)
	}
	if x.cfg.Step != nil {
		if err := x.cfg.Step(w); err != nil {
			x.violated(err)
			return 0
		}
	}
	switch {
	case x.whole:
		return x.explore(ph)
	case w.fate.loud && (ph.kind == settling || ph.kind == interrupted) && ph.rank < x.cfg.P:
		return 0 // others notice: this is a stretch
	case w.fate.loud || e.kind() == pass:
		return x.explore(phase{})
	case ph.kind == between:
		return x.explore(phase{kind: stretching, rank: e.at()})
	default:
		return x.explore(ph)
	}
}

// end checks an end of a run.
func (x *search[S, M]) end(w *World[S, M]) uint64 {
	key := w.fingerprint(false)
	if x.ends[key] || x.cfg.Check == nil {
		return 1
	}
	x.ends[key] = true
	x.report.Terminals++
	if err := x.cfg.Check(w); err != nil {
		x.violated(err)
	}
	return 1
}

// recurs ends the exploration: the path has come back to the state it had after the given number of
// transitions.
func (x *search[S, M]) recurs(legs int) {
	if legs == len(x.path) {
		return // nothing happened in between
	}
	for i := legs; len(x.path) <= x.cfg.stepsMax(); i++ {
		x.path = append(x.path, x.path[i])
	}
	x.violated(fmt.Errorf("%w: the same state again and again", ErrLivelock))
}

// violated ends the exploration: the path violates something.
func (x *search[S, M]) violated(err error) {
	x.err = x.w.violation(x.retrace(), err, &x.report)
}

// retrace turns the path into choices.
func (x *search[S, M]) retrace() (choices []uint64) {
	w := x.w
	defer func() {
		_ = recover() // the violation may be a panic at the end of the path
		choices = w.choices.script
	}()
	w.choices.fromScript(slices.Clone(x.prelude))
	if w.reset() != nil {
		return nil
	}
	for _, step := range x.path {
		menu, _ := w.menu(nil)
		if len(menu) > 1 {
			w.choices.script = append(w.choices.script, uint64(max(0, slices.Index(menu, step.event))))
		}
		w.choices.script = append(w.choices.script, step.choices...)
		w.advance()
	}
	return choices
}

// DelayBounded explores the schedules that differ in at most delays transitions from the ordinary one, which
// is oldest first and has no faults (delay-bounded scheduling; Emmi, Qadeer, Rakamarić 2011). A crash, a cut
// or any other whim is such a difference, too. It reaches worlds that are too large for Exhaustive, and
// mistakes that need few but particular coincidences. The error is a mistake in cfg, Report.First, or
// ErrIncomplete.
func DelayBounded[S, M any](cfg Config[S, M], delays int) (Report, error) {
	if err := cfg.validate(); err != nil {
		return Report{}, err
	}
	if delays < 0 {
		return Report{}, errors.New("chaos: delays are negative, allowed are 0 and more")
	}
	x := newSearch(&cfg)
	x.whole, x.bounded = true, true
	return x.run(delays)
}
