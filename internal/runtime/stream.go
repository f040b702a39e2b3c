package runtime

import (
	"context"
	"fmt"
	"slices"
)

// streamKey names a stream of messages of this task in a group: the other end,
// and the tag.
type streamKey struct {
	rank int
	tag  uint64
}

// outStream is a stream to another task.
type outStream struct {
	seq      uint64 // the last message
	consumed uint64 // the receiver has taken all up to this one
	held     []heldMessage
}

type heldMessage struct {
	envelope
	value []byte
}

// inStream is a stream from another task.
type inStream struct {
	queue []*incoming // in order
	seq   uint64      // the last message that came
	taken uint64      // the last message taken
	told  uint64      // the sender knows that it was taken
	want  *reception  // who waits
}

// reception is a caller that waits for a message.
type reception struct {
	waiter
	m    *Member
	op   string
	from int
	err  *Failure
}

func (m *Member) streamIn(from int, tag uint64) *inStream {
	key := streamKey{from, tag}
	s := m.in[key]
	if s == nil {
		s = &inStream{}
		m.in[key] = s
	}
	return s
}

// Send sends a value, which is the runtime's from now on. It returns as soon as
// there is room to keep it.
func (m *Member) Send(ctx context.Context, to, tag int, sign uint64, value []byte) error {
	const op = "send"
	if err := m.checkRank("task", to); err != nil {
		return err
	}
	p := m.p
	p.lock()
	defer p.unlock()
	p.count(m.task, op, nil)
	for {
		if err := m.usable(op); err != nil {
			return err
		}
		if g := m.goneRank(to); g.dead || g.returned {
			return m.goneFailure(op, to)
		}
		if p.queued == 0 || p.queued+int64(len(value)) <= p.cfg.Buffer {
			break
		}
		w := &waiter{}
		p.wanting = append(p.wanting, w)
		if err := p.wait(ctx, w); err != nil {
			return &Failure{Op: op, Tasks: []int{m.taskOf(to)}, Err: err}
		}
	}
	key := streamKey{to, uint64(tag)}
	s := m.out[key]
	if s == nil {
		s = &outStream{}
		m.out[key] = s
	}
	s.seq++
	e := m.to(to)
	e.seq, e.extra, e.sign, e.plan = s.seq, uint64(tag), sign, Plan{op: opSend}
	if s.seq-s.consumed > aheadMax || len(s.held) > 0 {
		s.held = append(s.held, heldMessage{e, value})
		p.queued += int64(len(value))
		return nil
	}
	m.peer(to).send(e, value, true)
	return nil
}

// credited learns how far the receiver of a stream has come.
func (s *outStream) credited(m *Member, to int, consumed uint64) {
	s.consumed = max(s.consumed, consumed)
	for len(s.held) > 0 && s.held[0].seq-s.consumed <= aheadMax {
		h := s.held[0]
		s.held[0] = heldMessage{}
		s.held = s.held[1:]
		m.p.queued -= int64(len(h.value))
		m.peer(to).send(h.envelope, h.value, true)
	}
	m.p.roomAgain()
}

// arrive takes a message, or its beginning.
func (s *inStream) arrive(m *Member, in *incoming) {
	if in.seq != s.seq+1 { // sent again
		in.decline()
		return
	}
	s.seq++
	in = in.stay()
	s.queue = append(s.queue, in)
	if !in.complete {
		in.arrived = func() { s.look(m) }
	}
	if s.want != nil && len(s.queue) == 1 {
		in.want()
	} else {
		in.wantEarly()
	}
	s.look(m)
}

// look ends the wait for the first message when all of it is there.
func (s *inStream) look(m *Member) {
	if s.want != nil && len(s.queue) > 0 && s.queue[0].complete {
		m.p.complete(&s.want.waiter)
	}
}

// Recv returns the next message that a task sent with a tag: a value of the type
// with the signature and the name given.
func (m *Member) Recv(ctx context.Context, from, tag int, sign uint64, typ string) (Result, error) {
	const op = "recv"
	if err := m.checkRank("task", from); err != nil {
		return Result{}, err
	}
	p := m.p
	p.lock()
	defer p.unlock()
	p.count(m.task, op, nil)
	if err := m.usable(op); err != nil {
		return Result{}, err
	}
	s := m.streamIn(from, uint64(tag))
	if s.want != nil {
		return Result{}, &Failure{Op: op, Tasks: []int{m.task}, Err: ErrMisuse, Text: fmt.Sprintf("two calls wait for the messages of task %d with tag %d", m.taskOf(from), tag)}
	}
	if len(s.queue) == 0 || !s.queue[0].complete {
		if err := m.await(ctx, s, op, from); err != nil {
			return Result{}, err
		}
	}
	in := s.queue[0]
	if in.sign != sign {
		f := &Failure{
			Op: op, Tasks: []int{m.taskOf(from), m.task}, Err: ErrMisuse,
			Text: fmt.Sprintf("task %d receives %s, which is not the type that task %d sent", m.task, typ, m.taskOf(from)),
		}
		m.announce(f)
		return Result{}, f
	}
	s.queue[0] = nil
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
	in.taken()
	s.taken++
	if len(s.queue) > 0 {
		s.queue[0].wantEarly()
	}
	if s.taken-s.told >= aheadMax/2 {
		s.told = s.taken
		e := m.to(from)
		e.seq, e.extra, e.plan, e.kind = s.taken, uint64(tag), Plan{op: opCredit}, 1
		m.peer(from).tell(e)
	}
	return Result{Value: in.value, Shared: in.shared}, nil
}

// await waits for the first message of a stream.
func (m *Member) await(ctx context.Context, s *inStream, op string, from int) error {
	r := &reception{m: m, op: op, from: from}
	s.want = r
	defer func() { s.want = nil }()
	if len(s.queue) > 0 {
		s.queue[0].want()
	} else if g := m.goneRank(from); g.dead {
		return m.goneFailure(op, from)
	} else if g.returned {
		m.probe(from, envelope{plan: Plan{op: opSend}})
	}
	s.look(m)
	m.p.receptions[r] = s
	err := m.p.wait(ctx, &r.waiter)
	delete(m.p.receptions, r)
	switch {
	case r.err != nil:
		return r.err
	case err != nil:
		return &Failure{Op: op, Tasks: []int{m.taskOf(from)}, Err: err}
	case len(s.queue) == 0 || !s.queue[0].complete:
		return m.usable(op)
	}
	return nil
}

// failReceptions ends the waits of which why says so.
func (p *Process) failReceptions(why func(*reception) *Failure) {
	for r, s := range p.receptions {
		if r.done || len(s.queue) > 0 && s.queue[0].complete {
			continue
		}
		if f := why(r); f != nil {
			f.Op = r.op
			r.err = f
			p.complete(&r.waiter)
		}
	}
}

// credit learns how far a receiver has come, of a stream or of the group's
// operations.
func (m *Member) credit(from int, in *incoming) {
	if in.kind == 0 {
		m.ahead.credited(m, from, in.seq)
		return
	}
	if s := m.out[streamKey{from, in.extra}]; s != nil {
		s.credited(m, from, in.seq)
	}
}

// ahead keeps a task from running ahead of those it sends to.
type ahead struct {
	sent    []uint64 // by rank: the last operation in which something was sent to it
	done    []uint64 // by rank: the operations it has completed, as far as is known
	heard   []uint64 // by rank: the last operation in which it sent something, told or not
	told    uint64
	behind  int // ranks that are too far behind
	waiting []*waiter
}

func (a *ahead) fit(n int) {
	if a.sent == nil {
		a.sent, a.done, a.heard = make([]uint64, n), make([]uint64, n), make([]uint64, n)
	}
}

func (a *ahead) late(rank int) bool { return a.sent[rank] > a.done[rank]+aheadMax }

func (a *ahead) send(m *Member, to int, seq uint64) {
	a.fit(m.Size())
	was := a.late(to)
	a.sent[to] = max(a.sent[to], seq)
	if !was && a.late(to) {
		a.behind++
	}
}

func (a *ahead) credited(m *Member, from int, seq uint64) {
	a.fit(m.Size())
	was := a.late(from)
	a.done[from] = max(a.done[from], seq)
	if was && !a.late(from) {
		a.behind--
		a.look(m)
	}
}

func (a *ahead) look(m *Member) {
	if a.behind == 0 {
		for _, w := range a.waiting {
			m.p.complete(w)
		}
		a.waiting = nil
	}
}

// completed takes note that the task has completed an operation, and tells those
// who send to it once in a while.
func (a *ahead) completed(m *Member) {
	m.taken++
	if m.taken-a.told < aheadMax/4 {
		return
	}
	a.told = m.taken
	if a.heard == nil {
		return
	}
	for r := range a.heard {
		if a.heard[r] != 0 {
			a.heard[r] = 0
			e := m.to(r)
			e.seq, e.plan = m.taken, Plan{op: opCredit}
			m.peer(r).tell(e)
		}
	}
}

// gone takes note that a rank need not be waited for.
func (a *ahead) gone(m *Member, rank int) {
	if a.sent == nil {
		return
	}
	if a.late(rank) {
		a.behind--
	}
	a.done[rank] = 1 << 62
	a.look(m)
}

// catchUp waits until nobody is too far behind.
func (m *Member) catchUp(ctx context.Context, op string) error {
	for m.ahead.behind > 0 {
		w := &waiter{}
		m.ahead.waiting = append(m.ahead.waiting, w)
		if err := m.p.wait(ctx, w); err != nil {
			m.ahead.waiting = slices.DeleteFunc(m.ahead.waiting, func(o *waiter) bool { return o == w })
			return &Failure{Op: op, Err: err}
		}
		if err := m.usable(op); err != nil {
			return err
		}
	}
	return nil
}
