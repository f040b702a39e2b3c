package replay

import (
	"errors"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/flow"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Streams: messages that package flow numbers, holds until the receiver has acknowledged enough, and drops if
// they come again. A task does not wait for what it sends, so messages may leave when it is far ahead. This
// model leaves out receivers that return before they have all messages.

// window is the largest number of messages of a stream by which a sender is ahead of the receiver.
const window = 2

// Values that take the place of an operation in a Name. The lane is the number of a message.
const (
	streamed = -1 // that message
	credited = -2 // From has taken all messages of To up to that one
)

var errWindow = errors.New("more messages of a stream wait than the window allows")

// stream is what two tasks send each other in an epoch, as one of them sees it.
type stream struct {
	epoch uint64
	peer  protocol.Rank
	out   flow.Out
	held  []*Frame // messages that wait to be sent
	in    flow.In
	queue []*Frame // messages that wait to be taken, or their beginnings
	rests []said   // beginnings of which the rest is wanted
}

// said is a message between tasks, and the process that it came from.
type said struct {
	*Frame
	by membership.Member
}

// streams returns the ways to send a few messages to the task some ranks on.
func streams(tasks int) (all []*Plan) {
	for _, p := range shifts(tasks) {
		n := 3 + int(p.Root)%3
		all = append(all, &Plan{Op: Stream, Algorithm: p.Algorithm, Root: p.Root, Spans: n, messages: 3 * n * tasks}) // each may be in parts, and is acknowledged
	}
	return all
}

// stream returns the stream with another task in an epoch.
func (t *task) stream(epoch uint64, peer protocol.Rank) *stream {
	for _, st := range t.streams {
		if st.epoch == epoch && st.peer == peer {
			return st
		}
	}
	st := t.memory.streams.one()
	*st = stream{epoch: epoch, peer: peer, held: st.held[:0], queue: st.queue[:0]}
	t.streams = append(t.streams, st)
	return st
}

// converse takes the next step of an operation on streams: all messages are sent, then received.
func (t *task) converse(g *Program, c *Call, send func(f *Frame)) bool {
	n := protocol.Rank(g.Tasks)
	if t.sends < c.Spans {
		f := t.frame((t.number+c.Root)%n, 0, t.input[t.sends])
		f.Op, f.Lane = streamed, uint16(t.stream(t.epoch, f.To).out.Last()+1)
		t.sends++
		t.counts(c, 1)
		send(f)
		return true
	}
	st := t.stream(t.epoch, (t.number-c.Root+n)%n)
	if len(st.queue) == 0 || st.queue[0].Op == begun {
		return false
	}
	f := pop(&st.queue)
	if f.Past != t.past && t.err == nil {
		t.err = errPast
	}
	t.got = append(t.got, f.Value)
	t.counts(c, -1)
	if st.in.Take(window) {
		t.tell(st)
	}
	if len(t.got) == c.Spans {
		t.over(g, digestOf(t.last(), t.got))
	}
	return true
}

// leave sends a message, unless it belongs to a stream and is held, or an earlier attempt has sent it.
func (t *task) leave(f *Frame) {
	if f.Op == streamed {
		st := t.stream(uint64(f.Epoch), f.To)
		number, now := st.out.Add(window)
		if !now {
			st.held = append(st.held, f)
		}
		if !now || st.out.Taken(number) {
			return
		}
	}
	t.emit(f)
}

// release sends the held messages that may go.
func (t *task) release(st *stream) {
	for {
		number, ok := st.out.Release(window)
		if !ok {
			return
		}
		if f := pop(&st.held); !st.out.Taken(number) {
			t.emit(f)
		}
	}
}

// tell tells the other task how many of its messages this one has taken.
func (t *task) tell(st *stream) {
	f := t.memory.frames.one()
	*f = Frame{Name: Name{credited, t.number, st.peer, uint16(st.in.Tell()), uint16(st.epoch)}, Past: t.view}
	t.out = append(t.out, f)
}

// arrive takes a message of a stream, or its beginning.
func (t *task) arrive(f said) {
	st, number := t.stream(uint64(f.Epoch), f.From), uint64(f.Lane)
	if inParts(f.Frame) && !st.wanted(f) {
		return
	}
	if !inParts(f.Frame) {
		switch st.in.Arrive(number) {
		case flow.Next:
			st.queue = append(st.queue, f.Frame)
			if len(st.queue) > window && t.err == nil {
				t.err = errWindow
			}
		case flow.Again:
			return
		}
	}
	if f.Op == begun {
		st.rests = append(st.rests, f)
	} else if st.in.Complete(number) {
		t.idle = 0
		st.queue[number-st.in.Taken()-1] = f.Frame
	}
}

// credit handles the other task's report of how many messages it has taken.
func (t *task) credit(f *Frame) {
	st := t.stream(uint64(f.Epoch), f.From)
	st.out.Credited(uint64(f.Lane), !t.first)
	t.release(st)
}

// reopen resets the streams with a task that is run again. log is what it was sent; again: its earlier
// attempt knew nothing, either.
func (t *task) reopen(to protocol.Rank, log []*Frame, again bool) {
	for _, st := range t.streams {
		if st.peer != to {
			continue
		}
		if st.in.Taken() > 0 {
			t.tell(st)
		}
		st.held = st.held[:0]
		for _, f := range log {
			if uint64(f.Epoch) == st.epoch {
				st.held = append(st.held, f)
			}
		}
		st.out.Reopen(len(st.held), again)
		t.release(st)
	}
}

// flows takes a message of a stream, when the task has come to its epoch. How far another attempt of the
// receiver has come says nothing about the one that counts.
func (j *Job) flows(s *State, t *task, f said) {
	switch epoch := uint64(f.Epoch); {
	case 0 < epoch && epoch < t.epoch: // it is over
	case epoch > t.epoch:
		t.later = append(t.later, f)
	case f.Op == asked && f.by.ID == s.view.Owners[f.From]: // another attempt no longer waits
		t.question(j.program, f.Frame)
	case f.Op == asked || f.Op == counted && f.by.ID != s.view.Owners[f.From]:
	case f.Op == streamed || f.Op == begun:
		t.arrive(f)
	case f.Past > s.view.Since[f.From]: // of an attempt that the process has yet to learn of
		s.held = append(s.held, f)
	case f.Past < s.view.Since[f.From]:
	case f.Op == counted:
		t.told(j.program, f.Frame)
	default:
		t.credit(f.Frame)
	}
}

// Holding reports whether the process runs a task whose messages wait for credit.
func (s *State) Holding(task protocol.Rank) bool {
	t := s.find(task)
	return t != nil && slices.ContainsFunc(t.streams, func(st *stream) bool { return st.out.Held() > 0 })
}

// entered takes what has come for the epoch that a task has entered.
func (j *Job) entered(s *State, t *task) {
	later := t.later
	t.later = nil
	for _, f := range later {
		j.accept(s, f)
	}
}

// clone returns a copy that shares nothing that changes.
func (st *stream) clone() *stream {
	c := *st
	c.in = st.in.Clone()
	c.held, c.queue, c.rests = slices.Clone(st.held), slices.Clone(st.queue), slices.Clone(st.rests)
	return &c
}

// sign adds the stream to a fingerprint.
func (st *stream) sign(f fingerprint) fingerprint {
	f = f.with(st.epoch<<32 | uint64(uint32(st.peer))).and(st.out.Fingerprint()).and(st.in.Fingerprint())
	for _, list := range [][]*Frame{st.held, st.queue} {
		for _, h := range list {
			f = f.with(h.Key()).with(h.Sum())
		}
		f = f.with(uint64(len(list)))
	}
	for _, r := range st.rests {
		f = f.with(r.Key()).with(uint64(r.by.ID)<<32 | uint64(r.by.Incarnation))
	}
	return f
}

// kind returns the kind of a message that has the frame.
func (f *Frame) kind() Kind {
	if f.Op == credited || f.Op == counted {
		return Credit
	}
	return Data
}
