package logp

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Engine simulates runs of one protocol, one after the other. It keeps its
// memory between runs. It is not safe for concurrent use.
//
// There is one event per message: the end of its receive is known when it is
// sent, because sends are handled in the order of (time, rank) in which
// receives are served. Ranks that may act are bits of a set per moment, which
// gives them in order without sorting. Processes that are Done cost nothing.
type Engine[S, M any] struct {
	protocol protocol.Protocol[S, M]
	net      Network
	gap      protocol.Time // between starts on one port

	state    []S
	receives []protocol.Time // when the receive port is free; moved by deafened if the process is deaf
	hold     protocol.Time   // from the start of a receive until its port is free
	sends    []protocol.Time // when the send port is free; nil if that is always the next moment
	dead     set
	deaf     set // dead or Done
	reached  set
	spread   set // reached by dissemination
	served   set // has delivered

	ignored protocol.Rank // messages with this from, or a larger one, change nothing at a process that is reached
	skip    protocol.Kind // sends up to this kind are only counted if they are ignored; Idle: none
	skipped [2]int64      // how many sends were skipped at this moment: by Send, by Correct

	calendar *calendar[M]
	outbox   [512]event[M] // sends of this moment, put aside
	put      int           // number of sends in the outbox
	sent     uint64        // the processes of a word that put a send aside
	asked    int           // how often processes of a word were asked again
	deaths   deaths
	dying    []protocol.Rank // processes that die of their last send, at this moment
	inputs   []Input         // to come, in the order of time
	findings []finding       // of the detector, in the order of time
	observer Observer[M]
	result   Result
	first    protocol.Time // of the first correction send
	err      error

	// What makes messages differ, see flushSlowly.
	slow      bool
	sized     Sized[M]     // nil: all messages are short
	computing Computing[M] // nil: processes compute nothing for messages
	router    *router[M]   // nil: all messages travel equally long
}

// NewEngine prepares simulations of p.
func NewEngine[S, M any](p protocol.Protocol[S, M], net Network) (*Engine[S, M], error) {
	if err := net.Check(); err != nil {
		return nil, err
	}
	e := &Engine[S, M]{
		protocol: p,
		net:      net,
		gap:      max(net.O, net.G),
		hold:     max(net.O, net.G),
		state:    make([]S, net.P),
		receives: make([]protocol.Time, net.P),
		dead:     newSet(net.P),
		deaf:     newSet(net.P),
		reached:  newSet(net.P),
		spread:   newSet(net.P),
		served:   newSet(net.P),
	}
	if net.NoQueue {
		e.hold = -4 * timeMax // free at any time
	}
	if e.gap > 1 {
		e.sends = make([]protocol.Time, net.P)
	}
	e.measure()
	e.calendar = newCalendar[M](net.P, 2*net.O+net.L+e.gap)
	return e, nil
}

// Run simulates one run. The same seed, faults and inputs give the same result.
func (e *Engine[S, M]) Run(seed uint64, faults Faults, inputs ...Input) (Result, error) {
	if err := cmp.Or(faults.Check(e.net.P), checkInputs(inputs, e.net.P)); err != nil {
		return Result{}, err
	}
	e.reset(seed, faults, inputs)
	for e.err == nil && e.calendar.advance(min(e.deaths.next(), e.nextInput(), e.router.next())) {
		now := e.calendar.now
		if e.net.Until > 0 && now >= e.net.Until {
			break
		}
		if now > timeMax {
			return Result{}, fmt.Errorf("a run of more than %d steps; allowed: what ends by then, or an end", timeMax)
		}
		e.moment(now)
	}
	if e.err != nil {
		return Result{}, e.err
	}
	e.finish()
	return e.result, nil
}

// moment simulates all that happens at one time: deaths, then arrivals, then the processes' actions.
func (e *Engine[S, M]) moment(now protocol.Time) {
	e.deaths.until(now, e.kill)
	if e.router != nil {
		e.arrive(now)
	}
	s := e.calendar.take()
	if s.ready == nil && (s.first != nil || e.nextInput() == now) {
		s.ready = e.calendar.readyAt(now)
		e.calendar.take()
	}
	if s.first != nil {
		e.receive(now, s.first, s.ready)
	}
	e.tell(now, s.ready)
	if e.calendar.bytes()+e.router.bytes() > flightMax {
		e.err = fmt.Errorf("more than %d GiB of messages in flight; allowed: fewer processes, or a protocol without storms", flightMax>>30)
	}
	if s.ready != nil {
		e.act(now, s.ready)
		e.calendar.release(s.ready)
	}
}

// flightMax bounds the bytes of messages in flight, so that a storm of P² messages ends with an error instead
// of exhausting the machine's memory.
const flightMax = 4 << 30

func (e *Engine[S, M]) reset(seed uint64, faults Faults, inputs []Input) {
	for _, s := range []set{e.dead, e.deaf, e.reached, e.spread, e.served} {
		clear(s)
	}
	clear(e.receives)
	clear(e.sends)
	e.calendar.reset()
	if e.router != nil {
		e.router.reset()
	}
	e.result, e.err, e.put, e.findings = Result{}, nil, 0, nil
	e.inputs = slices.Clone(inputs)
	slices.SortStableFunc(e.inputs, func(a, b Input) int { return cmp.Compare(a.At, b.At) })
	for _, r := range faults.Failed {
		e.kill(r)
	}
	e.deaths = faults.plan()
	e.ignore()
	e.deaths.until(0, e.kill)
	e.begin(seed)
}

// kill lets a process die now.
func (e *Engine[S, M]) kill(r protocol.Rank) {
	if e.observer.Died != nil && !e.dead.has(int(r)) {
		e.observer.Died(e.calendar.now, r)
	}
	e.detect(r)
	e.dead.set(int(r))
	if !e.deaf.has(int(r)) {
		e.deafen(int(r))
	}
}

// deafen makes a process deaf. Its receive times move beyond all others, so that one comparison tells
// a send both whether the process is deaf and whether its port is free.
func (e *Engine[S, M]) deafen(r int) {
	e.deaf.set(r)
	e.receives[r] += deafened
}

// deafened is the offset that deafen adds to receive times.
const deafened protocol.Time = 1 << 60

// receive passes on all messages whose receive ends now.
func (e *Engine[S, M]) receive(now protocol.Time, list *chunk[M], ready *readySet) {
	for list != nil {
		heard := e.heard(now, list, ready)
		if e.observer.Received != nil {
			e.observeReceives(now, heard)
		}
		for _, ev := range heard {
			from, _ := ev.sender()
			e.protocol.Receive(&e.state[ev.to], now, from, ev.msg)
		}
		next := list.next
		e.calendar.recycle(list)
		list = next
	}
}

// heard picks the messages whose receivers listen, records that these are reached, and lets them act. Like
// flush it makes no calls, to be fast.
func (e *Engine[S, M]) heard(now protocol.Time, list *chunk[M], ready *readySet) []event[M] {
	events, kept := list.events[:list.n], 0
	for i := range events {
		to := int(events[i].to)
		if e.deaf.has(to) {
			continue
		}
		if !e.reached.has(to) {
			_, correction := events[i].sender()
			e.color(now, to, correction)
		} else if events[i].from >= e.ignored {
			continue
		}
		if !ready.words.has(to) && (e.sends == nil || e.sends[to] <= now) {
			ready.set(to)
		}
		if kept != i {
			events[kept] = events[i]
		}
		kept++
	}
	return events[:kept]
}

// color records the first message of a process.
func (e *Engine[S, M]) color(now protocol.Time, r int, correction bool) {
	e.reached.set(r)
	e.result.Coloring = now
	if !correction {
		e.spread.set(r)
	}
}

// begin initializes all processes and asks the live ones for the first time. A process that acts at once has
// the message.
func (e *Engine[S, M]) begin(seed uint64) {
	for r := range e.state {
		e.protocol.Init(&e.state[r], protocol.Rank(r), seed)
		if e.dead.has(r) {
			continue
		}
		if e.put == len(e.outbox) {
			e.flush(0)
		}
		a := e.protocol.Next(&e.state[r], 0)
		if a.Kind == protocol.Idle {
			continue
		}
		if a.Kind != protocol.Wait {
			e.reached.set(r)
			e.spread.set(r)
		}
		for e.asked = 0; !a.Kind.Sends() && e.settle(0, r, a); {
			a = e.protocol.Next(&e.state[r], 0)
		}
		if a.Kind.Sends() {
			e.putAside(r, a)
			e.calendar.wake(e.gap, protocol.Rank(r))
		}
	}
	e.flush(0)
	e.bury()
}

// putAside puts a send into the outbox.
func (e *Engine[S, M]) putAside(r int, a protocol.Action[M]) {
	from := protocol.Rank(r)
	if a.Kind == protocol.Correct {
		from = ^from
	}
	ev := &e.outbox[e.put]
	ev.to, ev.from, ev.msg = a.To, from, a.Msg
	e.put++
}

// act asks all ready processes, in the order of their ranks, for their actions.
func (e *Engine[S, M]) act(now protocol.Time, ready *readySet) {
	for u := range ready.upper {
		upper := ready.upper[u]
		ready.upper[u] = 0
		for ; upper != 0; upper &= upper - 1 {
			w := u<<6 + bits.TrailingZeros64(upper)
			word := ready.words[w] &^ e.deaf[w]
			ready.words[w] = 0
			if e.sends != nil {
				word = e.unoccupied(now, w, word)
			}
			if sent := e.actWord(now, w<<6, word); sent != 0 {
				e.calendar.wakeWord(now+e.gap, w, sent)
			}
		}
	}
	e.flush(now)
	e.countSkipped(now)
	e.bury()
}

// unoccupied returns those ranks of a word whose send port is free. The others
// are here because of an old wake-up.
func (e *Engine[S, M]) unoccupied(now protocol.Time, w int, word uint64) uint64 {
	for rest := word; rest != 0; rest &= rest - 1 {
		if e.sends[w<<6+bits.TrailingZeros64(rest)] > now {
			word &^= rest & -rest
		}
	}
	return word
}

// actWord asks the ready processes of one word of a bitmap and returns those that send. Sends are put aside:
// handling many at once, without calls in between, is what makes the engine fast.
func (e *Engine[S, M]) actWord(now protocol.Time, base int, word uint64) uint64 {
	if e.put > len(e.outbox)-64 {
		e.flush(now)
	}
	e.sent, e.asked = word, 0
	for word != 0 {
		r := base + bits.TrailingZeros64(word)
		a := e.protocol.Next(&e.state[r], now)
		if a.Kind.Sends() {
			if a.Kind <= e.skip && e.skips(a.Kind, a.To) {
				word &= word - 1
				continue
			}
			e.putAside(r, a)
		} else if e.settle(now, r, a) {
			continue
		} else {
			e.sent &^= word & -word
		}
		word &= word - 1
	}
	return e.sent
}

// settle performs an action other than a send, and reports whether to ask the process again.
func (e *Engine[S, M]) settle(now protocol.Time, r int, a protocol.Action[M]) (again bool) {
	switch a.Kind {
	case protocol.Idle:
		return false
	case protocol.Wait:
		e.calendar.wake(max(a.At, now+1), protocol.Rank(r))
		return false
	case protocol.Done:
		e.deafen(r)
		e.result.Completion = now
		return false
	case protocol.Deliver:
		e.deliver(now, r, a.Msg)
	case protocol.Work:
		e.protocol.Notify(&e.state[r], now, protocol.Notice{Kind: protocol.WorkDone})
	default:
		e.err = fmt.Errorf("process %d answers Next with kind %d; allowed: those of package protocol", r, uint8(a.Kind))
		return false
	}
	if e.asked++; e.asked < actionsMax {
		return true
	}
	e.err = fmt.Errorf("process %d delivers and works without end at %d", r, now)
	return false
}

// actionsMax bounds what a process, or the few asked with it, may do at one moment without sending.
const actionsMax = 1 << 20

// deliver records a Deliver. A process that delivers without having got a message has it by itself.
func (e *Engine[S, M]) deliver(now protocol.Time, r int, m M) {
	if !e.reached.has(r) {
		e.reached.set(r)
		e.spread.set(r)
	}
	e.served.set(r)
	e.result.Delivery = now
	if e.observer.Delivered != nil {
		e.observer.Delivered(now, protocol.Rank(r), m)
	}
}

// bury kills the processes that die of their last send.
func (e *Engine[S, M]) bury() {
	for _, r := range e.dying {
		e.kill(r)
	}
	e.dying = e.dying[:0]
}

// flush sends what was put aside. Most receives start at the arrival: such
// neighbours in the outbox are handed over as one.
func (e *Engine[S, M]) flush(now protocol.Time) {
	if e.slow {
		e.flushSlowly(now)
		return
	}
	out := e.outbox[:e.put]
	arrival := now + e.net.O + e.net.L
	for rest := out; len(rest) > 0; {
		n := e.prompt(arrival, rest)
		e.transmit(arrival, rest[:n])
		if rest = rest[n:]; len(rest) > 0 {
			e.transmit(e.late(arrival, &rest[0]), rest[:1])
			rest = rest[1:]
		}
	}
	if e.err != nil {
		return
	}
	if e.observer.Sent != nil {
		e.observeSends(now, out)
	}
	e.count(now)
	e.put = 0
}

// prompt counts the messages up to the first that finds its receiver busy, or
// none, and occupies the receivers.
func (e *Engine[S, M]) prompt(arrival protocol.Time, out []event[M]) int {
	receives, free := e.receives, arrival+e.hold
	for i := range out {
		to := uint(out[i].to)
		if to >= uint(len(receives)) || receives[to] > arrival {
			return i
		}
		receives[to] = free
	}
	return len(out)
}

// late returns when the receive of a message starts that is not prompt.
func (e *Engine[S, M]) late(arrival protocol.Time, ev *event[M]) protocol.Time {
	if uint(ev.to) >= uint(len(e.receives)) {
		from, _ := ev.sender()
		e.err = fmt.Errorf("process %d sends to %d; allowed: 0 to %d", from, ev.to, len(e.state)-1)
		return dropped
	}
	if e.deaf.has(int(ev.to)) {
		return e.drop(arrival, ev.to)
	}
	at := e.receives[ev.to]
	e.receives[ev.to] = at + e.hold
	return at
}

// dropped marks messages that no process will look at.
const dropped protocol.Time = -1

// transmit plans messages whose receive starts at the same moment.
func (e *Engine[S, M]) transmit(at protocol.Time, messages []event[M]) {
	if at == dropped || len(messages) == 0 {
		return
	}
	at += e.net.O
	e.result.Quiescence = max(e.result.Quiescence, at)
	e.calendar.send(at, messages)
}

// drop accounts for a message to a process that is dead or Done: it is over at
// its arrival, or after its receive.
func (e *Engine[S, M]) drop(at protocol.Time, to protocol.Rank) protocol.Time {
	if !e.dead.has(int(to)) {
		at = max(at, e.receives[to]-deafened)
		e.receives[to] = at + e.hold + deafened
		at += e.net.O
	}
	e.result.Quiescence = max(e.result.Quiescence, at)
	return dropped
}

// count does the bookkeeping for what flush sends.
func (e *Engine[S, M]) count(now protocol.Time) {
	out := e.outbox[:e.put]
	corrections := int64(0)
	for i := range out {
		corrections -= int64(out[i].from >> 31) // −1 if negative
	}
	e.add(now, int64(len(out))-corrections, corrections)
	if e.sends == nil && e.deaths.bySends == nil {
		return
	}
	for i := range out {
		from, _ := out[i].sender()
		if e.sends != nil {
			e.sends[from] = now + e.gap
		}
		if e.deaths.sent(from) {
			e.dying = append(e.dying, from)
		}
	}
}

// add counts messages.
func (e *Engine[S, M]) add(now protocol.Time, disseminations, corrections int64) {
	if corrections > 0 && e.result.Corrections == 0 {
		e.first = now
	}
	e.result.Disseminations += disseminations
	e.result.Corrections += corrections
}

func (e *Engine[S, M]) finish() {
	for w, word := range e.reached {
		e.result.Uncolored += bits.OnesCount64(^(word | e.dead[w]))
		e.result.Undelivered += bits.OnesCount64(^(e.served[w] | e.dead[w]))
	}
	beyond := len(e.reached)*64 - e.net.P // bits without a rank
	e.result.Uncolored -= beyond
	e.result.Undelivered -= beyond
	e.result.GapMax = e.spread.longestGap(e.net.P)
	if e.result.Corrections > 0 {
		e.result.Correction = e.result.Quiescence - e.first
	}
}
