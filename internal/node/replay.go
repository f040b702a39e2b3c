package node

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/coppice-go/coppice/internal/large"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/credit"
	"github.com/coppice-go/coppice/protocol/inquiry"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Recovery by replay. A message between two tasks is named by its group, its
// operation or stream, who sends and who receives it; whoever sends it, and how often,
// its bits are the same, since programs are deterministic. So every process keeps what
// its tasks send (the log), and when a view gives a task to another process,
//
//   - the new owner runs the task's program from the top;
//   - everybody else sends it what it was sent before, from the log;
//   - what it sends is taken where it was missing, and ignored where it had come.
//
// Nothing else happens: who waits for the task goes on waiting. The tasks of a
// process die together, so what they send each other is not logged.

// history is a process's log, of all its tasks.
type history struct {
	keeps  bool  // there is one
	bytes  int64 // that it takes
	warned bool
	head   [envelopeLen + 8]byte
	lent   lentSum
	memory logMemory
	told   int64 // of the bytes, to logged
}

// logged is how many bytes the processes of this program have logged.
var logged atomic.Int64

// Logged is how many bytes the processes of this program have logged since it began.
func Logged() int64 { return logged.Load() }

// forkCost is what a group counts in the log besides its messages.
const forkCost = 2 << 10

// replays tells whether the tasks of the dead are run again.
func (p *Process) replays() bool { return p.cfg.Adopt != nil }

// logs reports whether what tasks send is logged, and not given up.
func (p *Process) logs() bool { return p.recovery.history.keeps }

// record puts a message to a rank into the log. A large value must not change any
// more.
func (m *Member) record(to int, e *envelope, value []byte) {
	p := m.p
	if !p.recovery.history.keeps || p.together(m, int(e.to)) {
		return
	}
	if m.log == nil {
		m.log = recovery.NewLog(p.headLen())
		m.log.Room = p.recovery.history.memory.take
		p.engine.Buffers.Stays = copiedMax
		m.count(forkCost)
	}
	e.size = uint64(len(value))
	e.put(p.recovery.history.head[:])
	if p.cfg.Check {
		p.recovery.history.sign(e, value)
	}
	m.count(m.log.Add(to, p.recovery.history.head[:], value))
	p.bound()
}

// count takes note that the log takes n bytes more.
func (m *Member) count(n int) {
	m.logged += int64(n)
	m.p.recovery.history.bytes += int64(n)
}

// together tells whether what a group sends a task need not be logged, since both are of this
// process. If it lives on without one of them, that is when an epoch begins, and the
// log of the first is all there is.
func (p *Process) together(m *Member, task int) bool {
	return p.roster.Mine(task) && !(p.cfg.Moves && m.epoch == 0)
}

// bound gives the log up if it is too large.
func (p *Process) bound() {
	h := &p.recovery.history
	if h.bytes > h.told {
		logged.Add(h.bytes - h.told)
		h.told = h.bytes
	}
	switch limit := p.cfg.Buffer; {
	case h.bytes > limit:
		p.cfg.Logger.Error("log given up: a death is no longer survived", "bytes", h.bytes, "allowed", limit)
		h.keeps, h.bytes, h.memory, p.engine.Buffers.Stays = false, 0, logMemory{}, 0
		p.recovery.rules.Logless()
		for m := range p.groups.all() {
			m.log, m.called, m.digests = nil, nil, digests{}
		}
	case h.bytes > limit/5*4 && !h.warned:
		h.warned = true
		p.cfg.Logger.Warn("log almost full: beyond what is allowed a death is no longer survived", "bytes", h.bytes, "allowed", limit)
	}
}

// lasting says how long what is sent stays as it is.
type lasting uint8

const (
	lastsForEver  lasting = iota // it is the task's, or the log's already
	lastsOfBuffer                // until the buffer that it is in is used again
	lastsNot                     // it may be replaced at once
)

// lasts says so of what a step sends, and where its buffer is noted.
func (o *operation) lasts(step int32, value []byte) (lasting, *[]byte) {
	s, st := &o.sched.store, &o.sched.program.Steps[step]
	switch bundled := s.Bundle(st) > 0; {
	case len(value) <= recovery.Inline, s.Owns(st, value), bundled && o.bundle.stays:
		return lastsForEver, nil
	case bundled:
		return lastsOfBuffer, &o.bundles[len(o.bundles)-1]
	}
	switch loan := s.Loan(st); {
	case loan < 0:
	case !s.Final(st):
		return lastsNot, nil
	case loan > 0:
		return lastsOfBuffer, &o.borrowed[loan-1]
	}
	return lastsForEver, nil
}

// copiedMax is the size up to which values are copied for the log that are in buffers.
// To do without a larger buffer costs less than to copy it.
const copiedMax = 256 << 10

// logged puts an operation's message into the log, and returns the value to send: one that stays as it
// is, even if the task goes on before it has left. What may take its place can come at any time, because
// another attempt of the task has sent the same.
func (o *operation) logged(to int, e *envelope, value []byte, step int32) []byte {
	p := o.m.p
	if !p.recovery.history.keeps || o.plan.is(unlogged) {
		return value
	}
	near := p.together(o.m, int(e.to))
	if len(value) > recovery.Inline {
		value = o.toStay(value, step, near)
	}
	if !near {
		o.m.record(to, e, value)
	}
	return value
}

// toStay returns a value that is sent where it stays as it is: there, or in a copy. near: it is not for
// the log, and the memory of buffers is not used again while somebody reads it.
func (o *operation) toStay(value []byte, step int32, near bool) []byte {
	lasts, buffer := lastsForEver, (*[]byte)(nil)
	switch {
	case o.sched != nil:
		lasts, buffer = o.lasts(step, value)
	case o.pooled:
		lasts = lastsOfBuffer
	}
	same := len(o.copied) == len(value) && &o.original[0] == &value[0]
	switch {
	case lasts == lastsForEver || lasts == lastsOfBuffer && near:
		return value
	case lasts == lastsOfBuffer && (len(value) > copiedMax || o.m.p.hub() != nil): // a task of this program may read it: it is not used again
		if buffer != nil {
			*buffer = nil
		}
		o.pooled = false
		return value
	case same && (lasts == lastsOfBuffer || o.copiedAt+1 == step): // it goes to several
	default:
		o.original = value
		if near {
			o.copied = large.New(len(value))
		} else {
			o.copied = o.m.p.recovery.history.memory.take(len(value))
		}
		o.m.p.copy(o.copied, value)
	}
	o.copiedAt = step
	return o.copied
}

// Lasting is memory of the log, for what is combined to be sent to a rank.
func (o *operation) Lasting(to protocol.Rank, n int) []byte {
	p := o.m.p
	if n <= recovery.Inline || !p.recovery.history.keeps || p.together(o.m, o.m.taskOf(int(to))) {
		return nil
	}
	return p.recovery.history.memory.take(n)
}

// Sequence is the number of its operation.
func (e *envelope) Sequence() uint64 { return e.seq }

// assign makes the view's owners those of the tasks.
func (p *Process) assign(v *membership.View) {
	if !p.replays() || p.dead {
		return
	}
	for _, t := range p.roster.Assign(v) {
		p.peerAt(p.roster.Owner(t))
		p.recovery.epochs.tasks[t] = taskEpoch{}
	}
}

// reopen begins anew with a task that is run again: it knows nothing. again: it knew nothing before, either,
// but may have dropped what it was sent since.
func (m *Member) reopen(rank int, again bool) {
	m.ahead.restart(m, rank, again)
	for o := range m.ops.all() {
		o.dropUnfinished()
		if o.asking != nil {
			o.asking.Restart(rank)
			if o.waits() {
				o.needs()
			}
		}
		if o.promises.Restart(rank) && o.lacks() {
			o.ask(rank, inquiry.Nobody)
		}
	}
	for key, s := range m.in {
		if key.rank == rank {
			m.tellTaken(key, s)
		}
	}
	for key, s := range m.out {
		if key.rank == rank {
			s.drop(m.p)
		}
	}
	if m.broken != nil {
		m.tellBroken(rank)
	}
	m.repeat(rank, again)
	m.takeHeld()
}

// repeat sends a rank again what it was sent.
func (m *Member) repeat(rank int, again bool) {
	delete(m.again, rank)
	ops := new(credit.Anew[*heldMessage])
	for head, value := range m.log.To(rank) {
		e := parseEnvelope(head)
		if e.plan.op == opSend {
			s := m.streamOut(rank, e.extra)
			s.held = append(s.held, heldMessage{envelope: e, value: value, logged: true})
			continue
		}
		h := &heldMessage{envelope: e, value: value}
		if len(head) > envelopeLen {
			h.sum = binary.LittleEndian.Uint64(head[envelopeLen:])
		}
		ops.Add(h)
	}
	for key, s := range m.out {
		if key.rank == rank {
			s.flow.Reopen(len(s.held), again)
			s.release(m, rank)
		}
	}
	if ops.Len() > 0 {
		if m.again == nil {
			m.again = map[int]*credit.Anew[*heldMessage]{}
		}
		m.again[rank] = ops
		m.repeatMore(rank)
	}
}

// repeats tells whether a rank has still to be sent messages again: who asks will ask
// again.
func (m *Member) repeats(rank int, asks *incoming) bool {
	if m.p.roster.Owner(int(asks.from)) != asks.source.rank { // its view is news to come
		return true
	}
	for key, s := range m.out {
		if key.rank == rank && len(s.held) > 0 {
			return true
		}
	}
	return false
}

// repeatMore goes on with that, as far as the rank has come.
func (m *Member) repeatMore(rank int) {
	a := m.again[rank]
	if a == nil {
		return
	}
	for h, ok := a.Next(&m.ahead.Account, rank); ok; h, ok = a.Next(&m.ahead.Account, rank) {
		if !h.unchanged() {
			delete(m.again, rank)
			m.tellChanged(&h.envelope)
			return
		}
		eager := m.ahead.send(m, rank, h.seq, int(min(h.size, eagerMax)))
		m.peer(rank).sendOn(terms{eager: eager}, h.envelope, h.value)
	}
	if a.Len() == 0 {
		delete(m.again, rank)
	}
}

// tellTaken tells the sender of a stream how far this task has come.
func (m *Member) tellTaken(key streamKey, s *inStream) {
	e := m.to(key.rank)
	e.seq, e.extra, e.plan, e.kind = s.flow.Tell(), key.tag, Plan{op: opCredit}, creditStream
	e.sign = uint64(m.p.roster.Attempt(m.task))
	m.peer(key.rank).tell(e)
}
