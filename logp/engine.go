package logp

import (
	"fmt"
	"math/bits"

	"github.com/coppice-go/coppice/protocol"
)

// Network is the LogP model of a machine: integer time, P processes.
//
// A send occupies the sender's send port for O, travels for L and occupies the
// receiver's receive port for O; it takes effect at its start + 2·O + L.
// Sending and receiving overlap; each port handles one message at a time, and
// receives that compete are served by the time of their send, then by the
// sender's rank. A message to a dead process costs the sender the same.
type Network struct {
	P int
	L protocol.Time // latency, 0 or more
	O protocol.Time // overhead of a send and of a receive, 1 or more
	G protocol.Time // gap between starts on one port; less than O counts as O

	// NoQueue lets receives overlap freely: the model of Corrected Gossip.
	NoQueue bool
}

// timeMax bounds parameters and simulated time, so that sums cannot overflow.
const timeMax protocol.Time = 1 << 40

// Check says what is wrong with the parameters.
func (n Network) Check() error {
	switch {
	case n.P < 1 || n.P > 1<<31-1:
		return fmt.Errorf("number of processes P is %d; allowed: 1 to 2^31−1", n.P)
	case n.L < 0 || n.L > timeMax:
		return fmt.Errorf("latency L is %d; allowed: 0 to 2^40", n.L)
	case n.O < 1 || n.O > timeMax:
		return fmt.Errorf("overhead o is %d; allowed: 1 to 2^40", n.O)
	case n.G < 0 || n.G > timeMax:
		return fmt.Errorf("gap g is %d; allowed: 0 to 2^40", n.G)
	}
	return nil
}

// Result is what one run came to.
type Result struct {
	// Coloring is when the last live process got its first message; the run
	// starts at 0.
	Coloring protocol.Time
	// Quiescence is when nothing happens any more: the end of the last send or
	// receive, or the arrival of a message at a process dead from the start.
	Quiescence protocol.Time
	// Correction is the time from the first correction send to quiescence.
	Correction protocol.Time
	// Disseminations and Corrections count the messages sent, also to the
	// dead.
	Disseminations, Corrections int64
	// GapMax is the longest run of ranks on the ring, dead ones included, that
	// dissemination did not reach.
	GapMax int
	// Uncolored counts the live processes that no message reached.
	Uncolored int
}

// Sent is the number of all messages.
func (r *Result) Sent() int64 { return r.Disseminations + r.Corrections }

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
	receives []protocol.Time // when the receive port is free
	sends    []protocol.Time // when the send port is free; nil if that is always the next moment
	dead     set
	deaf     set // dead or Done
	reached  set
	spread   set // reached by dissemination

	calendar *calendar[M]
	outbox   [512]event[M] // sends of this moment, put aside
	put      int           // how many
	deaths   deaths
	dying    []protocol.Rank // of their last send, at this moment
	result   Result
	first    protocol.Time // of the first correction send
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
		state:    make([]S, net.P),
		dead:     newSet(net.P),
		deaf:     newSet(net.P),
		reached:  newSet(net.P),
		spread:   newSet(net.P),
	}
	if !net.NoQueue {
		e.receives = make([]protocol.Time, net.P)
	}
	if e.gap > 1 {
		e.sends = make([]protocol.Time, net.P)
	}
	e.calendar = newCalendar[M](net.P, 2*net.O+net.L+e.gap)
	return e, nil
}

// Run simulates one run. The same seed and faults give the same result.
func (e *Engine[S, M]) Run(seed uint64, faults Faults) (Result, error) {
	if err := e.reset(seed, faults); err != nil {
		return Result{}, err
	}
	for e.calendar.advance(e.deaths.next()) {
		now := e.calendar.now
		if now > timeMax {
			return Result{}, fmt.Errorf("a run of more than %d steps; allowed: smaller L, o, g or time-outs", timeMax)
		}
		e.deaths.until(now, e.kill)
		s := e.calendar.take()
		if s.first != nil {
			if s.ready == nil {
				s.ready = e.calendar.readyAt(now)
				e.calendar.take()
			}
			e.receive(now, s.first, s.ready)
		}
		if s.ready != nil {
			e.act(now, s.ready)
			e.calendar.release(s.ready)
		}
	}
	e.finish()
	return e.result, nil
}

func (e *Engine[S, M]) reset(seed uint64, faults Faults) error {
	for _, s := range []set{e.dead, e.deaf, e.reached, e.spread} {
		clear(s)
	}
	clear(e.receives)
	clear(e.sends)
	e.calendar.reset()
	e.result = Result{}
	e.put = 0
	if err := faults.Check(e.net.P); err != nil {
		return err
	}
	for _, r := range faults.Failed {
		e.kill(r)
	}
	e.deaths = faults.plan()
	for r := range e.state {
		e.protocol.Init(&e.state[r], protocol.Rank(r), seed)
	}
	e.calendar.now = 0
	e.deaths.until(0, e.kill)
	e.begin()
	return nil
}

// kill makes a process die now.
func (e *Engine[S, M]) kill(r protocol.Rank) {
	e.dead.set(int(r))
	e.deaf.set(int(r))
}

// receive hands over all messages whose receive ends now.
func (e *Engine[S, M]) receive(now protocol.Time, list *chunk[M], ready *readySet) {
	deaf, reached, state, sends := e.deaf, e.reached, e.state, e.sends
	for list != nil {
		for i := range list.events[:list.n] {
			ev := &list.events[i]
			to := uint(ev.to)
			w, bit := to>>6, uint64(1)<<(to&63)
			if deaf[w]&bit != 0 {
				continue
			}
			from, correction := ev.sender()
			if reached[w]&bit == 0 {
				e.color(now, int(to), correction)
			}
			e.protocol.Receive(&state[to], now, from, ev.msg)
			if sends == nil || sends[to] <= now {
				ready.or(int(w), bit)
			}
		}
		next := list.next
		e.calendar.recycle(list)
		list = next
	}
}

// color notes the first message of a process.
func (e *Engine[S, M]) color(now protocol.Time, r int, correction bool) {
	e.reached.set(r)
	e.result.Coloring = now
	if !correction {
		e.spread.set(r)
	}
}

// begin asks every live process for the first time. Who acts by itself has the
// message.
func (e *Engine[S, M]) begin() {
	for r := range e.state {
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
		e.reached.set(r)
		e.spread.set(r)
		if a = e.settle(0, r, a); a.Kind.Sends() {
			from := protocol.Rank(r)
			if a.Kind == protocol.Correct {
				from = ^from
			}
			e.outbox[e.put] = event[M]{to: a.To, from: from, msg: a.Msg}
			e.put++
			e.calendar.wake(e.gap, protocol.Rank(r))
		}
	}
	e.flush(0)
	e.bury()
}

// act asks all ready processes, in the order of their ranks, what they do.
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
			e.actWord(now, w, word)
		}
	}
	e.flush(now)
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

// actWord asks the ready processes of one word of a bitmap. Sends are put
// aside: handling many at once, without calls in between, is what makes the
// engine fast.
func (e *Engine[S, M]) actWord(now protocol.Time, w int, word uint64) {
	if e.put > len(e.outbox)-64 {
		e.flush(now)
	}
	put, sent := e.put, word
	for ; word != 0; word &= word - 1 {
		r := w<<6 + bits.TrailingZeros64(word)
		a := e.protocol.Next(&e.state[r], now)
		if !a.Kind.Sends() {
			if a = e.settle(now, r, a); !a.Kind.Sends() {
				sent &^= word & -word
				continue
			}
		}
		ev := &e.outbox[put]
		ev.to, ev.from, ev.msg = a.To, protocol.Rank(r), a.Msg
		if a.Kind == protocol.Correct {
			ev.from = ^ev.from
		}
		put++
	}
	e.put = put
	if sent != 0 {
		e.calendar.wakeWord(now+e.gap, w, sent)
	}
}

// settle carries out what a process does besides sending and goes on asking it
// until it sends or has nothing to do.
func (e *Engine[S, M]) settle(now protocol.Time, r int, a protocol.Action[M]) protocol.Action[M] {
	for {
		switch a.Kind {
		case protocol.Wait:
			e.calendar.wake(max(a.At, now+1), protocol.Rank(r))
			return a
		case protocol.Done:
			e.deaf.set(r)
			return a
		case protocol.Idle, protocol.Send, protocol.Correct:
			return a
		case protocol.Work:
			e.protocol.Notify(&e.state[r], now, protocol.Notice{Kind: protocol.WorkDone})
		}
		a = e.protocol.Next(&e.state[r], now)
	}
}

// bury ends the processes that die of their last send.
func (e *Engine[S, M]) bury() {
	for _, r := range e.dying {
		e.kill(r)
	}
	e.dying = e.dying[:0]
}

// flush sends what was put aside. Neighbours in the outbox mostly end at the
// same moment: such runs are handed over as one.
func (e *Engine[S, M]) flush(now protocol.Time) {
	out := e.outbox[:e.put]
	arrival := now + e.net.O + e.net.L
	deaf, receives, gap := e.deaf, e.receives, e.gap
	run, runAt := 0, arrival // out[run:i] start their receive at runAt
	for i := range out {
		to := uint(out[i].to)
		at := arrival
		if deaf[to>>6]>>(to&63)&1 != 0 {
			at = e.drop(arrival, out[i].to)
		} else if receives != nil {
			at = max(at, receives[to])
			receives[to] = at + gap
		}
		if at != runAt {
			e.transmit(runAt, out[run:i])
			run, runAt = i, at
		}
	}
	e.transmit(runAt, out[run:])
	e.count(now)
	e.put = 0
}

// dropped marks messages that nobody will look at.
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
		if e.receives != nil {
			at = max(at, e.receives[to])
			e.receives[to] = at + e.gap
		}
		at += e.net.O
	}
	e.result.Quiescence = max(e.result.Quiescence, at)
	return dropped
}

// count does the book-keeping of what flush sends.
func (e *Engine[S, M]) count(now protocol.Time) {
	out := e.outbox[:e.put]
	corrections := int64(0)
	for i := range out {
		corrections -= int64(out[i].from >> 31) // −1 if negative
	}
	if corrections > 0 && e.result.Corrections == 0 {
		e.first = now
	}
	e.result.Disseminations += int64(len(out)) - corrections
	e.result.Corrections += corrections
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

func (e *Engine[S, M]) finish() {
	for w, word := range e.reached {
		e.result.Uncolored += bits.OnesCount64(^(word | e.dead[w]))
	}
	e.result.Uncolored -= len(e.reached)*64 - e.net.P
	e.result.GapMax = e.spread.longestGap(e.net.P)
	if e.result.Corrections > 0 {
		e.result.Correction = e.result.Quiescence - e.first
	}
}
