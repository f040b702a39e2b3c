package chaos

import (
	"fmt"
	"reflect"

	"github.com/coppice-go/coppice/protocol"
)

// World is one run, up to now. Check and Step read it.
type World[S, M any] struct {
	cfg      *Config[S, M]
	setup    Setup[S, M]
	protocol protocol.Protocol[S, M] // same as setup's
	procs    []proc[S, M]
	channels []channel[M] // [from·P + to]
	agenda   agenda
	held     []event // events that wait for a cut to heal or for a process
	choices  Choices
	strategy strategy
	script   *script[M] // description of what happens; nil: not recorded
	verdict  error      // contract broken
	scratch  S          // state before an extra Next
	now      protocol.Time
	p        int
	steps    int
	stepsMax int
	horizon  horizons
	usual    horizons // horizons of this run
	whims    int      // events in agenda that may come and are never due
	waiting  int      // processes that are Waiting
	eager    bool     // same as cfg's
	crashes  int      // including fenced processes
	fate     fate[M]
	snapshot bool // states are shared with other worlds: copy before a change
}

// Rest is the activity of a process.
type Rest uint8

// The activities of a process.
const (
	Unstarted Rest = iota // has not had its first Next
	Runnable              // may act
	Idle                  // until something arrives
	Waiting               // until its moment or until something arrives
	Done                  // forever
)

type life uint8

const (
	alive life = iota
	failed
	crashed
)

type proc[S, M any] struct {
	state S
	course[M]
}

// course is the part of a process's record that is not its state.
type course[M any] struct {
	until      protocol.Time // when Waiting
	delivered  []Delivery[M]
	sends      int32
	crashAfter int32 // effects after which it may crash; −1: never
	input      int32 // next of the inputs
	life       life
	number     uint32 // of the life, from 1
	rest       Rest
	reached    bool
	begins     bool        // has come back and not yet got its Begin notice
	signed     bool        // print is up to date; explorers only
	print      fingerprint // of all that matters here
}

// effects returns how many things the process did that others, or its user, can see.
func (p *proc[S, M]) effects() int32 { return p.sends + int32(len(p.delivered)) }

// Delivery is one result handed to the user.
type Delivery[M any] struct {
	Msg  M
	At   protocol.Time
	Life uint32 // of the process, from 1
}

// P returns the number of processes.
func (w *World[S, M]) P() int { return w.p }

// Now returns the time.
func (w *World[S, M]) Now() protocol.Time { return w.now }

// Protocol returns the protocol of this run.
func (w *World[S, M]) Protocol() protocol.Protocol[S, M] { return w.protocol }

// Crashes returns the number of processes that crashed, without those dead from the start.
func (w *World[S, M]) Crashes() int { return w.crashes }

// State returns the state of a live process, for reading. It returns nil for a dead process, whose last state
// nothing can observe.
func (w *World[S, M]) State(rank protocol.Rank) *S {
	if !w.Alive(rank) {
		return nil
	}
	return &w.procs[rank].state
}

// Alive reports whether rank is neither crashed nor dead from the start.
func (w *World[S, M]) Alive(rank protocol.Rank) bool { return w.procs[rank].life == alive }

// Crashed reports whether rank crashed during the run.
func (w *World[S, M]) Crashed(rank protocol.Rank) bool { return w.procs[rank].life == crashed }

// Failed reports whether rank was dead from the start.
func (w *World[S, M]) Failed(rank protocol.Rank) bool { return w.procs[rank].life == failed }

// Rest returns what rank is doing. A dead process is Done.
func (w *World[S, M]) Rest(rank protocol.Rank) Rest { return w.procs[rank].rest }

// Reached reports whether rank ever had a reason to act: it got a message or a notice, or acted at its first
// Next.
func (w *World[S, M]) Reached(rank protocol.Rank) bool { return w.procs[rank].reached }

// Sent reports whether rank has ever sent a message, even to a dead process. A Step can count the messages;
// to Exhaustive, runs that differ only in that count are the same.
func (w *World[S, M]) Sent(rank protocol.Rank) bool { return w.procs[rank].sends > 0 }

// Steps returns the number of steps so far.
func (w *World[S, M]) Steps() int { return w.steps }

// Delivered lists what rank handed to its user, in order, including deliveries before a crash.
func (w *World[S, M]) Delivered(rank protocol.Rank) []Delivery[M] { return w.procs[rank].delivered }

func newWorld[S, M any](cfg *Config[S, M]) *World[S, M] {
	return &World[S, M]{
		cfg: cfg, p: cfg.P, stepsMax: cfg.stepsMax(), eager: cfg.EagerTimers,
		procs:    make([]proc[S, M], cfg.P),
		channels: make([]channel[M], cfg.P*cfg.P),
		fate:     newFate(cfg),
	}
}

// reset makes the world that of a new run, whose choices have been started.
func (w *World[S, M]) reset() error {
	w.now, w.steps, w.crashes, w.whims, w.waiting = 0, 0, 0, 0, 0
	w.verdict = nil
	w.agenda.events, w.agenda.made, w.held = w.agenda.events[:0], 0, w.held[:0]
	w.fate.reset()
	w.p, w.procs, w.channels = w.cfg.P, w.procs[:w.cfg.P], w.channels[:w.cfg.P*w.cfg.P]
	for i := range w.channels {
		w.channels[i].clear()
	}
	if err := w.setup.prepare(w.cfg, &w.choices); err != nil {
		return err
	}
	w.protocol, w.usual = w.setup.Protocol, w.horizon
	if w.setup.horizon != (horizons{}) {
		w.usual = w.setup.horizon
	}
	if p := w.setup.P(); p < w.p {
		w.p, w.procs, w.channels = p, w.procs[:p], w.channels[:p*p]
		w.fate.resize(p)
	}
	for r := range w.procs {
		p := &w.procs[r]
		p.course = course[M]{delivered: p.delivered[:0], crashAfter: -1, number: 1}
		if !w.cfg.Reuse {
			p.state = *new(S)
		}
		if w.setup.failed[r] {
			p.life, p.rest = failed, Done
			w.fate.bury(r, left[M]{})
			w.note("p%d is dead from the start", r)
			continue
		}
		w.protocol.Init(&p.state, protocol.Rank(r), w.setup.Seed)
		w.agenda.add(happening(next, r, 0))
		w.enableInput(r)
	}
	if w.cfg.Detect {
		for r := range w.procs {
			if w.procs[r].life == failed {
				w.announce(r)
			}
		}
	}
	w.fate.free = w.setup.free
	if !w.fate.free {
		w.placeCrashes()
		w.placeFate()
	}
	return nil
}

// enableInput makes r's next input, if it has one, something that can happen.
func (w *World[S, M]) enableInput(r int) {
	p := &w.procs[r]
	if p.input = w.setup.nextInput(p.input, r); int(p.input) < len(w.setup.Inputs) {
		w.agenda.add(happening(input, r, 0))
	}
}

// announce lets every process be notified of the crash of r, after r's earlier crashes.
func (w *World[S, M]) announce(r int) {
	for to := range w.procs {
		if w.procs[to].rest != Done && w.fate.untold(to, r) == 1 {
			w.enable(happening(death, to, r))
		}
	}
}

// run runs to the end and returns what was violated, if anything.
func (w *World[S, M]) run() error {
	for w.advance() {
		if w.verdict != nil {
			return w.verdict
		}
		if w.steps >= w.stepsMax {
			return w.endless()
		}
		if w.cfg.Step != nil {
			if err := w.cfg.Step(w); err != nil {
				return err
			}
		}
	}
	if w.cfg.Check != nil {
		return w.cfg.Check(w)
	}
	return nil
}

// advance makes one transition. It returns false if this is the end. The passing of time, or the end of the
// run, is the choice after all the events. A crash may come but is never due, so it delays neither.
func (w *World[S, M]) advance() bool {
	if w.fate.free {
		w.fate.menu, _ = w.menu(w.fate.menu[:0])
		return w.take(w.fate.menu[w.choices.Choose(len(w.fate.menu))])
	}
	n := len(w.agenda.events)
	if n == w.whims || w.eager && w.waiting > 0 {
		n++
	}
	i := 0
	if n > 1 {
		i = w.pick(n)
	}
	w.steps++
	if i >= len(w.agenda.events) {
		return w.passTime()
	}
	e := w.agenda.events[i]
	if e.arrives() {
		if first := w.first(e); first != e {
			e, i = first, w.agenda.index(first)
		}
	}
	if e.kind() > death { // it may be a whim
		w.remove(i)
	} else {
		w.agenda.remove(i)
	}
	w.happen(e)
	return true
}

// first returns what must come before e at the same process, or e itself: the first Next comes before all
// that arrives (a driver's duty 3), and for a process that has come back, Begin comes before all else.
func (w *World[S, M]) first(e event) event {
	if !e.arrives() {
		return e
	}
	switch p := &w.procs[e.at()]; {
	case p.rest == Unstarted:
		return happening(next, e.at(), 0)
	case p.begins && e.kind() != input:
		return happening(input, e.at(), 0)
	}
	return e
}

// happen makes e happen, which is no longer on the agenda.
func (w *World[S, M]) happen(e event) {
	p := &w.procs[e.at()]
	p.signed = false
	if w.snapshot && e.kind() != cut && e.kind() != heal {
		p.state = clone(&p.state)
	}
	switch e.kind() {
	case receive:
		w.receive(p, e)
	case next:
		w.next(p, e.at())
	case crash, fenced:
		w.crash(p, e)
	case restart:
		if w.cfg.Returns != nil && !w.cfg.Returns(w, protocol.Rank(e.at())) {
			w.note("p%d stays away", e.at())
			break
		}
		w.restart(p, e.at())
	case cut:
		w.cut()
	case heal:
		w.heal()
	case freeze:
		w.freeze()
	case begin:
		w.begin(e.at())
	default:
		w.notify(p, e)
	}
}

func (w *World[S, M]) receive(p *proc[S, M], e event) {
	ch := &w.channels[e.from()*w.p+e.at()]
	k := 0
	if w.cfg.Reorder {
		k = w.choices.Choose(ch.len())
	}
	m := ch.take(k)
	if ch.len() > 0 {
		w.agenda.add(e.ageless())
	}
	ch.signed = false
	w.protocol.Receive(&p.state, w.now, protocol.Rank(e.from()), m)
	if w.script != nil {
		w.script.received(e, m)
	}
	w.wake(p, e.at())
}

func (w *World[S, M]) notify(p *proc[S, M], e event) {
	var n protocol.Notice
	switch e.kind() {
	case input:
		if p.begins {
			p.begins = false
			n = protocol.Notice{Kind: protocol.Begin, Value: uint64(p.number)}
			break
		}
		n = w.setup.Inputs[p.input].Notice
		p.input++
		w.enableInput(e.at())
	case workDone:
		n.Kind = protocol.WorkDone
	case death:
		n = w.tell(p, e)
	case suspect, suspicion:
		n = w.doubt(e)
	case heard:
		n = protocol.Notice{Kind: protocol.Heard, Rank: protocol.Rank(e.from()), Value: uint64(w.procs[e.from()].number)}
	}
	w.protocol.Notify(&p.state, w.now, n)
	if w.script != nil {
		w.script.notified(e, n)
	}
	w.wake(p, e.at())
}

// wake lets a process act because something arrived.
func (w *World[S, M]) wake(p *proc[S, M], at int) {
	p.reached = true
	if p.rest == Runnable {
		return
	}
	if p.rest == Waiting {
		w.waiting--
	}
	p.rest = Runnable
	w.agenda.add(happening(next, at, 0))
}

func (w *World[S, M]) next(p *proc[S, M], at int) {
	a := w.protocol.Next(&p.state, w.now)
	if w.script != nil {
		lost := a.Kind.Sends() && w.knows(a.To) && w.procs[a.To].rest == Done
		w.script.acted(at, a, lost)
	}
	if p.rest == Unstarted && a.Kind != protocol.Idle && a.Kind != protocol.Wait {
		p.reached = true
	}
	p.rest = Runnable
	if w.cfg.Claim != nil && (a.Kind.Sends() || a.Kind == protocol.Deliver || a.Kind == protocol.Work) {
		w.hear(at, a.Msg)
	}
	switch a.Kind {
	case protocol.Send, protocol.Correct:
		w.send(p, at, a.To, a.Msg)
	case protocol.Deliver:
		p.delivered = append(p.delivered, Delivery[M]{Msg: a.Msg, At: w.now, Life: p.number})
		w.effected(at)
		w.witness(at)
	case protocol.Work:
		w.agenda.add(happening(workDone, at, 0))
		w.fence(at, a.Msg)
	case protocol.Idle:
		p.rest = Idle
	case protocol.Wait:
		p.rest, p.until = resting(a.At, w.now)
		if p.rest == Waiting {
			w.waiting++
		}
	case protocol.Done:
		p.rest = Done
		w.forget(at)
	default:
		w.verdict = fmt.Errorf("%w: p%d answers Next with kind %d", ErrContract, at, uint8(a.Kind))
	}
	if p.rest == Runnable {
		w.agenda.add(happening(next, at, 0))
	} else if w.cfg.ExtraNext && p.rest != Done {
		w.askAgain(p, at)
	}
}

// resting returns what a process does whose Next answered Wait until at.
func resting(at, now protocol.Time) (Rest, protocol.Time) {
	switch {
	case at <= now:
		return Runnable, 0
	case at == protocol.Never:
		return Idle, 0
	}
	return Waiting, at
}

func (w *World[S, M]) send(p *proc[S, M], at int, to protocol.Rank, m M) {
	if !w.knows(to) {
		w.verdict = fmt.Errorf("%w: p%d sends to rank %d", ErrContract, at, to)
		return
	}
	p.sends++
	w.fate.loud = true
	w.effected(at)
	if w.procs[to].rest == Done {
		return
	}
	ch := &w.channels[at*w.p+int(to)]
	if ch.len() == 0 {
		w.enable(happening(receive, int(to), at))
	}
	ch.queue = append(ch.queue, m)
	ch.signed = false
}

// effected records that r did something that others, or its user, can see.
func (w *World[S, M]) effected(r int) {
	w.enableCrash(r)
	w.fate.effects++
	if len(w.fate.placed) > 0 {
		w.enablePlaced()
	}
}

func (w *World[S, M]) knows(r protocol.Rank) bool { return r >= 0 && int(r) < w.p }

// passTime advances to the earliest moment that a process waits for. It returns false if there is none.
func (w *World[S, M]) passTime() bool {
	if w.fate.isCut {
		if w.waiting == 0 || w.fate.ticks == w.cfg.cutTicks() {
			return w.healOrEnd()
		}
		w.fate.ticks++
	}
	if w.fate.awaited > 0 {
		if w.fate.waits++; w.fate.waits > waitsMax && w.beginNext() {
			return true
		}
	}
	if w.waiting == 0 {
		return w.bringForward() || w.beginNext()
	}
	w.now = protocol.Never
	for r := range w.procs {
		if p := &w.procs[r]; p.rest == Waiting {
			w.now = min(w.now, p.until)
		}
	}
	if w.script != nil {
		w.script.passed(w.now)
	}
	for r := range w.procs {
		p := &w.procs[r]
		if p.rest == Waiting && p.until <= w.now {
			p.rest, p.signed = Runnable, false
			w.waiting--
			w.agenda.add(happening(next, r, 0))
		} else if w.cfg.ExtraNext && (p.rest == Waiting || p.rest == Idle) {
			w.askAgain(p, r)
		}
	}
	return true
}

// askAgain checks a machine's duty 1 on a process that rests.
func (w *World[S, M]) askAgain(p *proc[S, M], at int) {
	w.scratch = clone(&p.state)
	a := w.protocol.Next(&p.state, w.now)
	if err := sameRest(at, p.rest, p.until, a, w.now); err != nil {
		w.verdict = err
	} else if !reflect.DeepEqual(&w.scratch, &p.state) {
		w.verdict = fmt.Errorf("%w: an extra Next changed the state of p%d", ErrContract, at)
	}
}

// sameRest returns what is wrong with the answer to an extra Next.
func sameRest[M any](r int, rest Rest, until protocol.Time, a protocol.Action[M], now protocol.Time) error {
	again, at := Idle, protocol.Time(0)
	switch a.Kind {
	case protocol.Idle:
	case protocol.Wait:
		again, at = resting(a.At, now)
	default:
		again = Runnable
	}
	if again != rest || rest == Waiting && at != until {
		return fmt.Errorf("%w: p%d rested, and answers an extra Next with %v", ErrContract, r, a.Kind)
	}
	return nil
}
