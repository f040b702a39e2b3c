package chaos

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// Exhaustive exploration, with a reduction that keeps every end of a run.
//
// The idea. A process touches its own state, the heads of the channels to it and the tails of the channels
// from it. Two transitions of different processes therefore commute: the only place they share is a channel,
// where one appends and the other takes what is already there. Another process can notice only a Send. So let
// a *stretch* of a process be what it does up to its next Send: receives, notices, and calls of Next that
// rest, deliver, work or end.
//
// Claim: every run has the same end as one in which each process's stretch is contiguous and right before the
// Send that closes it, or, for the last one, before time passes or the run ends.
// Proof: take a transition t of process i that is no Send, followed by a transition u of another process. t·u
// has the same effect as u·t: u needs nothing that t makes (t appends to no channel), and t finds after u
// what it found before: its state, and the messages it takes, since others only append (with Reorder, take
// from elsewhere). Swapping such pairs moves every stretch right up to its Send; and nothing ends up behind
// the passing of time, since the last stretches go before it. Messages to processes that are Done vanish,
// which does not matter: no process takes them from the channel either.
//
// So a state is left in two ways only: one process makes a whole stretch and its Send; or all make a stretch
// without a Send at whose end nothing is left to do, and time passes or the run ends. Within a stretch all
// orders of arrivals and calls of Next are tried. A stretch depends only on one process's view (its state,
// the channels to it, the time, which processes are dead), so stretches are computed once per view, and
// states that were seen are not explored again.
//
// What a state is. How often a process has sent decides nothing that can come, and a Check sees only whether
// it has sent at all; so states that differ in the count are one. With Config.Cumulative, so are states whose
// channels hold different messages with the same effect (effect.go). The ends of the processes' last
// stretches are settled once for every combination of what each may choose from, not once for every state
// (settle).
//
// Crashes. A crash of i commutes with everything others do: they notice that i sends no more, not when it
// stopped. So a crash is moved right, too: to where time passes or the run ends, cutting i's last stretch at
// any point. Points that differ in nothing the caller sees (what was delivered, sent and reached: the state
// of a dead process is not shown) count as one, which leaves those around a Deliver. With Detect others do
// notice; then a crash is a way to leave a state like a Send. What a crash takes with it: loss.go.
//
// Time. With EagerTimers time may pass anywhere, and what happens after it happens at another time: stretches
// cannot be moved over it. So before it passes, every process makes any part of a stretch.
//
// Step would have to be called in states that are skipped, so it is refused.
//
// A run that does not end either comes back to a state it was in, or has an endless path. The first is found
// when a state is met again on the path that led from it: between the two only sends happened, which can
// happen again and again. The second is found by Config.StepsMax, and so is a process that never rests within
// one stretch.

// Exhaustive explores every schedule of cfg; search.go does the work where there are other faults than
// crashes. The error is a mistake in cfg, Report.First, or ErrIncomplete.
func Exhaustive[S, M any](cfg Config[S, M]) (Report, error) {
	if err := cfg.validate(); err != nil {
		return Report{}, err
	}
	if cfg.eventful() {
		return newSearch(&cfg).run(0)
	}
	if err := explorable(&cfg); err != nil {
		return Report{}, err
	}
	x := explorer[S, M]{
		exploration: newExploration(&cfg), shown: newWorld(&cfg),
		views: map[fingerprint]*stretches[S, M]{}, settlings: map[fingerprint]uint64{}, arrivals: map[fingerprint][]queue[M]{},
	}
	return x.setups(func() uint64 {
		clear(x.views)
		clear(x.settlings)
		clear(x.arrivals)
		x.path, x.depth = x.path[:0], 0
		return x.explore(x.start())
	}, func(panicked error) {
		if x.current != nil {
			x.push(leg[S, M]{x.current, byNothing})
		}
		x.violated(panicked)
	})
}

// exploration is what both ways of Exhaustive share.
type exploration[S, M any] struct {
	cfg     *Config[S, M]
	w       *World[S, M] // for Vary, and for shortening violations
	prelude []uint64     // choices of Vary
	seen    map[fingerprint]visit
	ends    map[fingerprint]bool
	report  Report
	err     error
}

func newExploration[S, M any](cfg *Config[S, M]) exploration[S, M] {
	return exploration[S, M]{cfg: cfg, w: newWorld(cfg), seen: map[fingerprint]visit{}, ends: map[fingerprint]bool{}}
}

// setups explores every setup; explore returns the number of ways to an end. A panic of the protocol or of a
// check is a violation, which the path identifies.
func (x *exploration[S, M]) setups(explore func() (ways uint64), violated func(panicked error)) (Report, error) {
	begin := time.Now()
	one := func() {
		defer func() {
			if v := recover(); v != nil {
				violated(fmt.Errorf("%w: %v", ErrPanic, v))
			}
		}()
		x.report.Schedules = saturating(x.report.Schedules, explore())
	}
	for script := []uint64{}; script != nil && x.err == nil; {
		x.w.choices.enumerate(script)
		if err := x.w.setup.prepare(x.cfg, &x.w.choices); err != nil {
			return Report{}, err
		}
		script = x.w.choices.following()
		x.prelude = append(x.prelude[:0], x.w.choices.made...)
		clear(x.seen)
		clear(x.ends)
		one()
	}
	x.report.Seconds = time.Since(begin).Seconds()
	return x.report, x.err
}

// explorable rejects configurations that the reduction cannot handle.
func explorable[S, M any](cfg *Config[S, M]) error {
	switch {
	case cfg.Step != nil:
		return errors.New("chaos: Exhaustive skips states, so it cannot ask Step; use Check or Random")
	case cfg.P > 64:
		return fmt.Errorf("chaos: P is %d, allowed are 1 … 64 for Exhaustive", cfg.P)
	case cfg.LossyCrashes && cfg.Reorder:
		return errors.New("chaos: Exhaustive explores LossyCrashes in channels without Reorder; use Random")
	}
	return searchable(cfg)
}

type explorer[S, M any] struct {
	exploration[S, M]
	shown     *World[S, M] // for Check
	views     map[fingerprint]*stretches[S, M]
	arrivals  map[fingerprint][]queue[M] // inboxes after a Send, by view and message
	settlings map[fingerprint]uint64     // what was settled, and the paths from there to an end
	path      []leg[S, M]
	depth     int          // transitions of path
	current   *point[S, M] // what is being tried, in case it panics
}

// visit is what is known of a state.
type visit struct {
	ways uint64 // paths from it to an end
	legs int    // those that lead to it, plus one, while it is on the path
}

// leg is one edge of a path: a stretch and what closed it.
type leg[S, M any] struct {
	end   *point[S, M]
	close closing
}

type closing uint8

const (
	bySend closing = iota
	byCrash
	byNothing // the process came to rest, or time interrupted it
	byTime    // time passes; no stretch
)

// explore visits what can come after g and returns the number of paths to an end.
func (x *explorer[S, M]) explore(g *node[S, M]) uint64 {
	key := g.print()
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
	if x.depth > x.cfg.stepsMax() {
		x.violated(fmt.Errorf("%w: no end after %d steps", ErrLivelock, x.depth))
		return 0
	}
	x.seen[key] = visit{legs: len(x.path) + 1}
	ways := uint64(0)
	all := make([]*stretches[S, M], len(g.procs))
	for r := range g.procs {
		all[r] = x.stretches(g, r)
		for _, end := range all[r].sends {
			if x.err == nil {
				ways = saturating(ways, x.follow(leg[S, M]{end, bySend}, x.sent(g, end)))
			}
		}
		if x.cfg.Detect && x.mayCrash(g, r) {
			for _, end := range all[r].crashes {
				for _, to := range x.crashed(g, end) {
					if x.err == nil {
						ways = saturating(ways, x.follow(leg[S, M]{end, byCrash}, to))
					}
				}
			}
		}
	}
	if x.err == nil {
		ways = saturating(ways, x.settle(g, all))
	}
	x.seen[key] = visit{ways: ways}
	return ways
}

// recurs ends the exploration: the path has come back to the state it had after the given number of legs.
// Repeating the loop until StepsMax shows it in a run.
func (x *explorer[S, M]) recurs(legs int) {
	for i := legs; x.depth <= x.cfg.stepsMax(); i++ {
		x.push(x.path[i])
	}
	x.violated(fmt.Errorf("%w: the same state again and again", ErrLivelock))
}

// follow explores what comes after a leg.
func (x *explorer[S, M]) follow(l leg[S, M], to *node[S, M]) uint64 {
	x.report.Transitions++
	x.push(l)
	ways := x.explore(to)
	if x.err == nil {
		x.pop()
	}
	return ways
}

func (x *explorer[S, M]) push(l leg[S, M]) {
	x.path = append(x.path, l)
	x.depth += l.steps()
}

func (x *explorer[S, M]) pop() {
	x.depth -= x.path[len(x.path)-1].steps()
	x.path = x.path[:len(x.path)-1]
}

func (l leg[S, M]) steps() int {
	if l.end == nil {
		return 1
	}
	return l.end.depth + 1
}

// settle lets all processes end their stretches without a Send, each in every way, and then time pass or the
// run end. Most states differ from others that were settled only in what led to them.
func (x *explorer[S, M]) settle(g *node[S, M], all []*stretches[S, M]) uint64 {
	key := fingerprint{uint64(g.now), uint64(g.crashes)}
	for r, p := range g.procs {
		if p.life == alive {
			key = key.and(all[r].ends)
		} else {
			key = key.and(p.print)
		}
	}
	if ways, ok := x.settlings[key]; ok {
		return ways
	}
	ways := uint64(0)
	for _, doomed := range x.doomed(g) {
		if x.err == nil {
			to := *g
			to.procs, to.inboxes = slices.Clone(g.procs), slices.Clone(g.inboxes)
			ways = saturating(ways, x.settleFrom(&to, all, doomed, 0))
		}
	}
	x.settlings[key] = ways
	return ways
}

// doomed lists the sets of processes that may crash before time passes, a bit per rank.
func (x *explorer[S, M]) doomed(g *node[S, M]) []uint64 {
	sets := []uint64{0}
	if x.cfg.Detect {
		return sets
	}
	for r := range g.procs {
		if !x.mayCrash(g, r) {
			continue
		}
		for _, set := range sets {
			if g.crashes+bits.OnesCount64(set) < x.cfg.Crashes {
				sets = append(sets, set|1<<r)
			}
		}
	}
	return sets
}

// settleFrom settles the processes from r on. It changes g and changes it back: most of what it tries leads
// to an end that is known.
func (x *explorer[S, M]) settleFrom(g *node[S, M], all []*stretches[S, M], doomed uint64, r int) uint64 {
	if r == len(all) {
		return x.settled(g)
	}
	if g.procs[r].life != alive {
		return x.settleFrom(g, all, doomed, r+1)
	}
	ways := uint64(0)
	before := *g
	p, inbox := g.procs[r], g.inboxes[r]
	try := func(end *point[S, M], close closing) {
		x.push(leg[S, M]{end, close})
		ways = saturating(ways, x.settleFrom(g, all, doomed, r+1))
		if x.err == nil {
			x.pop()
		}
	}
	if doomed>>r&1 == 1 {
		for _, end := range all[r].crashes {
			if x.err == nil {
				g.bury(end)
				try(end, byCrash)
				*g = before
			}
		}
	} else {
		for _, end := range x.stops(all[r]) {
			for _, left := range x.survivors(end, doomed) {
				if x.err == nil {
					g.procs[r], g.inboxes[r] = end.p, left
					try(end, byNothing)
				}
			}
		}
	}
	g.procs[r], g.inboxes[r] = p, inbox
	return ways
}

// stops returns the points where a process may be when time passes.
func (x *explorer[S, M]) stops(s *stretches[S, M]) []*point[S, M] {
	if x.cfg.EagerTimers {
		return s.points
	}
	return s.rests
}

// settled lets time pass, or ends the run.
func (x *explorer[S, M]) settled(g *node[S, M]) uint64 {
	later := protocol.Never
	for r, p := range g.procs {
		if p.rest == Waiting {
			later = min(later, p.until)
		}
		if p.rest == Runnable && !x.cfg.EagerTimers {
			x.violated(fmt.Errorf("%w: p%d never rests", ErrLivelock, r))
			return 0
		}
	}
	if later == protocol.Never {
		return x.end(g)
	}
	x.report.Transitions++
	x.push(leg[S, M]{close: byTime})
	to := x.at(g, later)
	if x.cfg.ExtraNext {
		x.askAllAgain(to)
	}
	ways := uint64(0)
	if x.err == nil {
		ways = x.explore(to)
	}
	if x.err == nil {
		x.pop()
	}
	return ways
}

// end checks an end of a run.
func (x *explorer[S, M]) end(g *node[S, M]) uint64 {
	if x.cfg.EagerTimers && !x.atRest(g) {
		return 0 // and no timer to be eager about
	}
	x.report.Transitions++
	key := g.visible()
	if x.ends[key] {
		return 1
	}
	x.ends[key] = true
	x.report.Terminals++
	x.shown.show(g, x.w.setup.Protocol)
	if err := x.cfg.Check(x.shown); err != nil {
		x.violated(err)
	}
	return 1
}

// atRest reports whether nothing can happen in g, where no process waits.
func (x *explorer[S, M]) atRest(g *node[S, M]) bool {
	for r := range g.procs {
		if x.quiet(g, r) {
			continue
		}
		if x.spins(g, r) {
			x.violated(fmt.Errorf("%w: p%d never rests", ErrLivelock, r))
		}
		return false
	}
	return true
}

func (x *explorer[S, M]) mayCrash(g *node[S, M], r int) bool {
	p := g.procs[r]
	return g.crashes < x.cfg.Crashes && p.life == alive && p.rest != Done &&
		(x.cfg.MayCrash == nil || x.cfg.MayCrash(protocol.Rank(r)))
}

func (x *exploration[S, M]) tooMany() error {
	return fmt.Errorf("chaos: %w: more than %d states", ErrIncomplete, x.cfg.statesMax())
}

// Add adds the report of another exploration.
func (r *Report) Add(one Report) {
	r.Schedules = saturating(r.Schedules, one.Schedules)
	r.States, r.Transitions = r.States+one.States, r.Transitions+one.Transitions
	r.Terminals, r.Violations = r.Terminals+one.Terminals, r.Violations+one.Violations
}

// saturating adds, up to the largest number there is.
func saturating(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
