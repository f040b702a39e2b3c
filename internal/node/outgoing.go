package node

import (
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
	"github.com/coppice-go/coppice/protocol"
)

// outgoing is a message on its way.
type outgoing struct {
	envelope
	terms
	value []byte
	sent  int    // bytes of value
	id    uint32 // that parts are tagged with; 0: not begun
}

// terms are those on which a message is sent.
type terms struct {
	stream *outStream // as whose it counts as queued; nil: it does not
	member *Member    // as whose it counts as unsent; nil: it does not
	eager  int        // so many bytes go without a grant
	lazy   bool       // it may linger for a while, to leave together with others
}

// send sends a message: of a stream, or, if that is nil, another. Its value must not
// change any more, except one of no stream of up to inlineMax bytes.
func (q *peer) send(e envelope, value []byte, s *outStream) {
	q.sendOn(terms{stream: s, eager: eagerMax}, e, value)
}

// sendOn sends a message on some terms.
func (q *peer) sendOn(t terms, e envelope, value []byte) {
	e.size = uint64(len(value))
	if q.mute(e.plan.op) {
		return
	}
	if e.plan.op != opView {
		q.tellDrawn()
	}
	if q.local != nil {
		q.mail(&t, &e, value)
		return
	}
	q.linked()
	if len(q.queue) == 0 && len(value) <= t.eager && q.link.Room(envelopeLen+len(value)) {
		q.first(&e, value, 0)
		if t.lazy && q.conn != nil {
			q.linger()
		} else {
			q.flush()
		}
		return
	}
	if t.stream == nil && len(value) <= inlineMax {
		value = append([]byte(nil), value...)
	}
	q.p.waits(&t, value)
	q.queue = append(q.queue, &outgoing{envelope: e, terms: t, value: value})
	q.pump()
}

// lingerTime is how long messages linger that almost never matter.
const lingerTime = protocol.Time(10 * time.Millisecond)

// linger leaves what is to be written for later: until something else is written to
// the peer, or the time has come.
func (q *peer) linger() {
	p := q.p
	if len(p.mesh.lingering) == 0 {
		p.engine.At(p.engine.Now()+lingerTime, p.lingered)
	}
	if !q.lingers {
		q.lingers = true
		p.mesh.lingering = append(p.mesh.lingering, q)
	}
}

// lingered writes what has lingered.
func (p *Process) lingered() {
	for i, q := range p.mesh.lingering {
		p.mesh.lingering[i] = nil
		q.lingers = false
		if !q.dead && q.conn != nil && len(q.out) > 0 {
			q.flush()
		}
	}
	p.mesh.lingering = p.mesh.lingering[:0]
}

// tell sends a message of our own, without value, ahead of all that waits.
func (q *peer) tell(e envelope) {
	if q.mute(e.plan.op) {
		return
	}
	if q.local != nil {
		q.mail(&terms{}, &e, nil)
		return
	}
	q.linked()
	q.first(&e, nil, 0)
	q.flush()
}

// linked makes a link to the peer, if there is none.
func (q *peer) linked() {
	if q.link == nil {
		q.link = transport.NewLink(linkRoom)
	}
}

// pump moves messages to the link while it has room, and writes them.
func (q *peer) pump() {
	q.linked()
	for len(q.queue) > 0 {
		o := q.queue[0]
		var n int
		if o.id == 0 {
			n = min(len(o.value), o.eager)
		} else {
			n = min(len(o.value)-o.sent, partMax)
		}
		if !q.link.Room(envelopeLen + n) {
			break
		}
		q.queue[0] = nil
		q.queue = q.queue[1:]
		switch {
		case o.id == 0:
			q.begin(o)
		default:
			q.proceed(o, n)
		}
	}
	if len(q.queue) == 0 {
		q.queue = nil
	}
	q.flush()
}

// inlineMax is the size up to which a value is copied behind its envelope.
const inlineMax = 2 << 10

// SmallMax is the size up to which an operation's values are copied when they are
// sent.
const SmallMax = inlineMax

// begin sends the envelope of a message, and with it all or the first of the
// value.
func (q *peer) begin(o *outgoing) {
	first := o.value[:min(len(o.value), o.eager)]
	if len(first) < len(o.value) {
		o.id = q.asked.Ask(o)
	}
	o.sent = len(first)
	q.first(&o.envelope, first, o.id)
	if o.id == 0 {
		q.p.sentAll(o)
	}
}

// first puts the first frame of a message on the link.
func (q *peer) first(e *envelope, value []byte, id uint32) {
	inline := 0
	if len(value) <= inlineMax {
		inline = len(value)
	}
	head := q.link.Head(envelopeLen + inline)
	e.put(head[wire.HeaderLen:])
	copy(head[wire.HeaderLen+envelopeLen:], value[:inline])
	q.out = append(q.out, q.link.Send(wire.Data, id, head, value[inline:]))
}

// proceed sends n more bytes of a message.
func (q *peer) proceed(o *outgoing, n int) {
	part := o.value[o.sent : o.sent+n]
	o.sent += n
	q.out = append(q.out, q.link.Send(wire.Part, o.id, q.link.Head(0), part))
	if o.sent < len(o.value) {
		q.queue = append(q.queue, o) // after the others: small ones pass large ones
		return
	}
	q.p.sentAll(o)
}

// sentAll takes note that a message is the link's.
func (p *Process) sentAll(o *outgoing) {
	o.waive()
	if o.stream == nil {
		return
	}
	p.waitsNoMore(o.stream, o.value)
	o.stream = nil
	p.roomAgain()
}

// waive no longer counts a message as unsent.
func (o *outgoing) waive() {
	if m := o.member; m != nil {
		o.member = nil
		m.unsent -= int64(len(o.value))
		m.ahead.look(m)
	}
}

// waive does so with all messages to a task: it may never ask for them.
func (q *peer) waive(task int) {
	for _, o := range q.queue {
		if int(o.to) == task {
			o.waive()
		}
	}
	for o := range q.asked.All() {
		if int(o.to) == task {
			o.waive()
		}
	}
}

// granted tells that the rest of a message is wanted, or not.
func (q *peer) granted(id uint32, wanted bool) {
	switch o, ok := q.asked.Answered(id); {
	case !ok:
	case wanted && q.local == nil:
		q.queue = append(q.queue, o)
		q.pump()
	default:
		q.p.sentAll(o)
		q.p.settlesNow()
	}
}

// flush writes what the connection takes.
func (q *peer) flush() {
	if q.conn == nil {
		q.out = q.out[:0] // the link keeps it for the next connection
		q.connect()
		return
	}
	for again := true; again; {
		again = q.flushSome()
	}
}

// flushSome writes what the connection takes, and reports whether it takes more by now.
func (q *peer) flushSome() (again bool) {
	for len(q.out) > 0 {
		iov := q.p.mesh.iov[:0]
		for _, f := range q.out[:min(len(q.out), 32)] {
			for _, b := range [...][]byte{f.Head, f.Rest} {
				if len(b) > 0 {
					iov = append(iov, b)
				}
			}
		}
		q.p.mesh.iov = iov
		n, err := q.conn.Write(iov)
		clear(q.p.mesh.iov)
		if err != nil && err != transport.ErrAgain {
			q.broken(err)
			return false
		}
		q.p.mesh.moved += uint64(n)
		if part := q.written(n); part || err == transport.ErrAgain {
			return q.arm(true)
		}
	}
	if q.conn.Unsent() {
		if err := q.conn.Flush(); err != nil && err != transport.ErrAgain {
			q.broken(err)
			return false
		}
	}
	return q.arm(q.conn.Unsent())
}

// written takes n written bytes off what is to be written, and reports whether a frame is left in part.
func (q *peer) written(n int) (part bool) {
	for i := range q.out {
		f := &q.out[i]
		if n < f.Len() {
			head := min(n, len(f.Head))
			f.Head, f.Rest = f.Head[head:], f.Rest[n-head:]
			q.out = q.out[i:]
			return n > 0
		}
		n -= f.Len()
		*f = transport.Frame{}
	}
	q.out = q.out[:0]
	return false
}

// arm says whether room in the connection is waited for, and reports whether there is some by now.
func (q *peer) arm(on bool) (room bool) {
	changes := on != q.armed
	q.armed = on
	switch {
	case q.conn.Shared():
		return (on || changes) && q.conn.AwaitRoom(on)
	case changes:
		q.p.engine.WatchOutput(q.conn.Fd(), int32(q.rank)<<1, on)
	}
	return false
}
