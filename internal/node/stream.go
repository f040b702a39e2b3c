package node

import (
	"context"
	"slices"

	"github.com/coppice-go/coppice/internal/node/engine"
	"github.com/coppice-go/coppice/protocol/flow"
)

// streamKey names a stream of messages of this task in a group: the other end,
// and the tag.
type streamKey struct {
	rank int
	tag  uint64
}

// outStream is a stream to another task.
type outStream struct {
	flow   flow.OutTape
	queued int64 // what its messages that wait to be sent cost
	held   []heldMessage
}

type heldMessage struct {
	envelope
	value  []byte
	logged bool   // from the log: it does not count as waiting
	sum    uint64 // its digest, if that is known
}

// inStream is a stream from another task.
type inStream struct {
	m     *Member
	from  int
	flow  flow.InTape
	queue []*incoming // in order, from first on
	first int

	copies []*incoming // more of those that are in the queue and not complete

	wanted  bool // somebody waits:
	endless bool // only the end of the job ends the context
	w       engine.Waiter
	any     *engine.Waiter // of a task that waits for one of several streams; nil: it waits for this one
	err     *Failure       // why in vain
	patrols int            // that saw it wait
}

func (m *Member) streamIn(from int, tag uint64) *inStream {
	key := streamKey{from, tag}
	s := m.in[key]
	if s == nil {
		s = &inStream{m: m, from: from, flow: flow.InTape{Note: m.p.trace.begin("In", m.place(), m.taskOf(from), tag, aheadMax)}}
		m.in[key] = s
	}
	return s
}

// head is the first message of which at least the beginning is here; nil: none.
func (s *inStream) head() *incoming {
	if s.first == len(s.queue) {
		return nil
	}
	return s.queue[s.first]
}

// place is that of a message that waits to be taken.
func (s *inStream) place(number uint64) **incoming {
	return &s.queue[s.first+int(number-s.flow.Taken())-1]
}

// push adds a message.
func (s *inStream) push(in *incoming) {
	if s.first == len(s.queue) {
		s.queue, s.first = s.queue[:0], 0
	}
	s.queue = append(s.queue, in)
}

// pop takes the first message.
func (s *inStream) pop() {
	s.queue[s.first] = nil
	if s.first++; s.first >= 1024 {
		s.queue = append(s.queue[:0:0], s.queue[s.first:]...)
		s.first = 0
	}
}

func (m *Member) streamOut(to int, tag uint64) *outStream {
	key := streamKey{to, tag}
	s := m.out[key]
	if s == nil {
		s = &outStream{flow: flow.OutTape{Note: m.p.trace.begin("Out", m.place(), m.taskOf(to), tag, aheadMax)}}
		m.out[key] = s
	}
	return s
}

// messageCost is what a message that waits to be sent counts besides its value,
// so that a million of nothing are not free.
const messageCost = 256

func cost(value []byte) int64 { return int64(len(value)) + messageCost }

// hasRoom tells whether a message may wait to be sent. One may always, be it as
// large as it is; no stream takes more than half of the room, so that one that
// nobody receives from does not stop the others.
func (p *Process) hasRoom(s *outStream, value []byte) bool {
	c := cost(value)
	return (s.queued == 0 || s.queued+c <= p.cfg.Buffer/2) && (p.groups.queued == 0 || p.groups.queued+c <= p.cfg.Buffer)
}

// waits counts a message that waits to be sent, as its terms say.
func (p *Process) waits(t *terms, value []byte) {
	if s := t.stream; s != nil {
		s.queued += cost(value)
		p.groups.queued += cost(value)
	}
	if t.member != nil {
		t.member.unsent += int64(len(value))
	}
}

func (p *Process) waitsNoMore(s *outStream, value []byte) {
	s.queued -= cost(value)
	p.groups.queued -= cost(value)
}

// drop forgets what is held for a task that will not receive it.
func (s *outStream) drop(p *Process) {
	for _, h := range s.held {
		if !h.logged {
			p.waitsNoMore(s, h.value)
		}
	}
	s.held = nil
	s.flow.Drop()
}

// Send sends a value, which is the runtime's from now on. It returns as soon as
// there is room to keep it.
func (m *Member) Send(ctx context.Context, to, tag int, sign uint64, value []byte) error {
	const op = "send"
	if err := m.checkRank("task", to); err != nil {
		return err
	}
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	p.count(m.task, op, nil)
	s := m.streamOut(to, uint64(tag))
	for {
		if err := m.usable(op); err != nil {
			return err
		}
		if g := m.goneRank(to); g.Dead {
			return m.goneFailure(op, to)
		} else if g.Returned {
			// Nobody will receive it, now as well as a moment ago, unless the task
			// is run again.
			s.drop(p)
			e := m.streamed(to, tag, s.flow.Skip(), sign, value)
			if p.checks() && s.flow.Taken(e.seq) {
				m.peer(to).send(e, value, s)
			}
			return nil
		}
		if p.hasRoom(s, value) {
			break
		}
		if err := p.engine.Stand(ctx, &p.groups.wanting); err != nil {
			return &Failure{Op: op, Tasks: []int{m.taskOf(to)}, Err: err}
		}
	}
	number, now := s.flow.Add(aheadMax)
	e := m.streamed(to, tag, number, sign, value)
	switch {
	case !now:
		s.held = append(s.held, heldMessage{envelope: e, value: value})
		p.waits(&terms{stream: s}, value)
	case !s.flow.Taken(number) || p.checks(): // otherwise an earlier attempt has sent it
		m.peer(to).send(e, value, s)
	}
	return nil
}

// streamed counts and logs a message of a stream.
func (m *Member) streamed(to, tag int, number, sign uint64, value []byte) envelope {
	m.p.taskEpoch(m.task).balance++
	e := m.to(to)
	e.seq, e.extra, e.sign, e.plan = number, uint64(tag), sign, Plan{op: opSend}
	m.record(to, &e, value)
	return e
}

// credited learns how far the receiver of a stream has come.
func (s *outStream) credited(m *Member, to int, consumed uint64) {
	s.flow.Credited(consumed, m.p.roster.Again(m.task))
	s.release(m, to)
}

// release sends what may go of what is held.
func (s *outStream) release(m *Member, to int) {
	for {
		if _, ok := s.flow.Release(aheadMax); !ok {
			break
		}
		h := s.held[0]
		s.held[0] = heldMessage{}
		s.held = s.held[1:]
		if !h.logged {
			m.p.waitsNoMore(s, h.value)
		}
		if !s.flow.Taken(h.seq) || !h.logged && m.p.checks() {
			m.peer(to).send(h.envelope, h.value, s)
		}
	}
	m.p.roomAgain()
}

// arrive takes a message, or its beginning.
func (s *inStream) arrive(in *incoming) {
	switch s.flow.Arrive(in.seq) {
	case flow.Next:
		in = in.stay()
		s.push(in)
		s.came(in)
	case flow.Copy:
		in = in.stay()
		s.copies = append(s.copies, in)
		s.came(in)
	case flow.Again:
		s.repeated(in)
	}
}

// came takes care of a message that may be the first of its copies to be complete.
func (s *inStream) came(in *incoming) {
	if in.Complete() {
		s.complete(in)
		return
	}
	in.arrived = func() { s.complete(in) }
	if s.wanted && s.head().seq == in.seq {
		in.want()
	} else {
		in.wantEarly()
	}
}

// complete puts a message in its place, unless another copy is there.
func (s *inStream) complete(in *incoming) {
	s.flow.Complete(in.seq)
	if at := s.place(in.seq); *at != in {
		(*at).drop()
		*at = in
	}
	s.copies = slices.DeleteFunc(s.copies, func(c *incoming) bool {
		if c.seq == in.seq && c != in {
			c.drop()
		}
		return c.seq == in.seq
	})
	s.look()
}

// want asks for the rest of the first message, in all its copies.
func (s *inStream) want() {
	if in := s.head(); in != nil {
		in.want()
		for _, c := range slices.Clone(s.copies) { // one that is complete at once leaves
			if c.seq == in.seq {
				c.want()
			}
		}
	}
}

// look ends the wait for the first message when all of it is there.
func (s *inStream) look() {
	if in := s.head(); s.wanted && in != nil && in.Complete() {
		s.free()
	}
}

// free ends the wait for the first message.
func (s *inStream) free() {
	if s.any != nil {
		s.m.p.engine.Complete(s.any)
		return
	}
	s.m.p.engine.Complete(&s.w)
}

// Recv returns the next message that a task sent with a tag: a value of the type
// with the signature and the name given.
func (m *Member) Recv(ctx context.Context, from, tag int, sign uint64, typ string) (Result, error) {
	const op = "recv"
	if err := m.checkRank("task", from); err != nil {
		return Result{}, err
	}
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	p.count(m.task, op, nil)
	if err := m.usable(op); err != nil {
		return Result{}, err
	}
	if from == m.rank {
		p.takeMail() // what it has sent itself
	}
	s := m.streamIn(from, uint64(tag))
	if from == m.rank && s.head() == nil && p.endless(ctx) && ctx.Err() == nil {
		return Result{}, m.selfish(op, tag)
	}
	if in := s.head(); in == nil || !in.Complete() {
		if err := s.await(ctx, op); err != nil {
			return Result{}, err
		}
	}
	in := s.head()
	if in.sign != sign {
		return Result{}, m.misuse(in, op, []int{m.taskOf(from), m.task},
			"task %d receives %s, which is not the type that task %d sent", m.task, typ, m.taskOf(from))
	}
	s.pop()
	in.taken()
	tell := s.flow.Take(aheadMax)
	p.taskEpoch(m.task).balance--
	m.took(from, in)
	if next := s.head(); next != nil {
		next.wantEarly()
	}
	if tell {
		m.tellTaken(streamKey{from, uint64(tag)}, s)
	}
	r := Result{Value: in.value, Shared: in.shared}
	p.reuse(in)
	return r, nil
}

// await waits for the first message of a stream.
func (s *inStream) await(ctx context.Context, op string) error {
	m := s.m
	s.wanted, s.err = true, nil
	defer func() {
		s.wanted = false
		s.w.Reset()
	}()
	s.want()
	in := s.head()
	switch g := m.goneRank(s.from); {
	case g.Dead && (in == nil || !in.Complete()): // the rest of it will not come
		return m.goneFailure(op, s.from)
	case g.Returned && in == nil:
		m.probe(s.from, envelope{plan: Plan{op: opSend}})
	}
	s.look()
	s.endless = m.p.endless(ctx)
	err := m.p.engine.Wait(ctx, &s.w)
	switch {
	case s.err != nil:
		s.err.Op = op
		return s.err
	case err != nil:
		return &Failure{Op: op, Tasks: []int{m.taskOf(s.from)}, Err: err}
	case s.head() == nil || !s.head().Complete():
		return m.usable(op)
	}
	return nil
}

// failStreams ends the waits for messages of which why says so.
func (m *Member) failStreams(why func(*inStream) *Failure) {
	for _, s := range m.in {
		if !s.wanted || s.w.Done() {
			continue
		}
		if f := why(s); f != nil {
			s.err = f
			s.free()
		}
	}
}

// credit learns how far a receiver has come, of a stream or of the group's operations, if the attempt that
// counts says so: the one before may have been in the same process.
func (m *Member) credit(from int, in *incoming) {
	switch attempt := uint64(m.p.roster.Attempt(int(in.from))); {
	case in.sign < attempt: // it is over
	case in.sign > attempt: // its view is to come
		m.held = append(m.held, in.stay())
	case in.kind == creditStream:
		m.streamOut(from, in.extra).credited(m, from, in.seq)
	default:
		m.ahead.credited(m, from, in.seq, in.kind == creditLoose)
	}
}
