package runtime

import (
	"errors"
	"fmt"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
)

// peer is another process, as seen from this one.
type peer struct {
	p    *Process
	rank int
	dead bool // certainly, or given up
	left bool // ended well

	// A process of this program: messages are handed over in memory.
	local *Process

	// A process elsewhere; see connect.go for how connections come about.
	link        *transport.Link
	conn        *transport.Conn
	pidfd       int // −1: none
	incarnation uint64
	way         way

	out    []transport.Frame // to be written
	outAt  int               // bytes of the first that are
	armed  bool              // the poller waits for room in the socket
	queue  []*outgoing       // messages that may go out, as soon as the link has room
	asked  map[uint32]*outgoing
	lastID uint32

	partial []byte               // the beginning of a frame
	parts   map[uint32]*incoming // large messages that come in parts
	into    *incoming            // the frame that is being read belongs to this one; nil: to nobody
	left64  uint64               // so much of it is still to come
	head    wire.Header
	heard   time.Time // the first since listen looked; zero: nothing
}

// outgoing is a message on its way.
type outgoing struct {
	envelope
	value  []byte
	sent   int        // bytes of value
	id     uint32     // that parts are tagged with; 0: not begun
	stream *outStream // as whose it counts as queued; nil: it does not
}

// incoming is a message of which at least the beginning has come.
type incoming struct {
	envelope
	value    []byte
	filled   int
	id       uint32 // that its parts are tagged with
	source   *peer
	origin   *outgoing // where processes are goroutines
	granted  bool
	early    bool // counts as early
	shared   bool // others read the value's memory, too
	complete bool
	arrived  func() // the rest has come
	passes   bool   // it is Process.one: who keeps it lets it stay
}

// passing is memory for a message that is most likely handled at once.
func (p *Process) passing() *incoming {
	p.one = incoming{passes: true}
	return &p.one
}

// stay returns the message in memory of its own, to be kept.
func (in *incoming) stay() *incoming {
	if !in.passes {
		return in
	}
	p := in.source.p
	c := &incoming{}
	if n := len(p.freeIn); n > 0 {
		c = p.freeIn[n-1]
		p.freeIn = p.freeIn[:n-1]
	}
	*c = *in
	c.passes = false
	return c
}

// reuse takes back the memory of a message that came in one piece.
func (p *Process) reuse(in *incoming) {
	if in.id == 0 && len(p.freeIn) < aheadMax {
		*in = incoming{}
		p.freeIn = append(p.freeIn, in)
	}
}

// send sends a message: of a stream, or of an operation if that is nil. Its value
// must not change any more.
func (q *peer) send(e envelope, value []byte, s *outStream) {
	e.size = uint64(len(value))
	if q.dead || q.left {
		return
	}
	if q.local != nil {
		q.mail(&e, value, s)
		return
	}
	if q.link == nil {
		q.link = transport.NewLink(linkRoom)
	}
	if len(q.queue) == 0 && len(value) <= eagerMax && q.link.Room(envelopeLen+len(value)) {
		q.first(&e, value, 0)
		q.flush()
		return
	}
	q.p.waits(s, value)
	q.queue = append(q.queue, &outgoing{envelope: e, value: value, stream: s})
	q.pump()
}

// tell sends a message of our own, without value, ahead of all that waits.
func (q *peer) tell(e envelope) {
	if q.dead || q.left {
		return
	}
	if q.local != nil {
		q.mail(&e, nil, nil)
		return
	}
	if q.link == nil {
		q.link = transport.NewLink(linkRoom)
	}
	q.first(&e, nil, 0)
	q.flush()
}

// pump moves messages to the link while it has room, and writes them.
func (q *peer) pump() {
	if q.link == nil {
		q.link = transport.NewLink(linkRoom)
	}
	for len(q.queue) > 0 {
		o := q.queue[0]
		var n int
		if o.id == 0 {
			n = min(len(o.value), eagerMax)
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

// begin sends the envelope of a message, and with it all or the first of the
// value.
func (q *peer) begin(o *outgoing) {
	first := o.value[:min(len(o.value), eagerMax)]
	if len(first) < len(o.value) {
		q.lastID++
		if q.lastID == 0 {
			q.lastID++
		}
		o.id = q.lastID
		if q.asked == nil {
			q.asked = map[uint32]*outgoing{}
		}
		q.asked[o.id] = o
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
	if o.stream == nil {
		return
	}
	p.waitsNoMore(o.stream, o.value)
	o.stream = nil
	p.roomAgain()
}

// granted tells that the rest of a message is wanted, or not.
func (q *peer) granted(id uint32, wanted bool) {
	o := q.asked[id]
	if o == nil {
		return
	}
	delete(q.asked, id)
	if !wanted || q.local != nil {
		q.p.sentAll(o)
		return
	}
	q.queue = append(q.queue, o)
	q.pump()
}

// flush writes what the connection takes.
func (q *peer) flush() {
	if q.conn == nil {
		q.out = q.out[:0] // the link keeps it for the next connection
		q.connect()
		return
	}
	for len(q.out) > 0 {
		iov := q.p.iov[:0]
		for _, f := range q.out[:min(len(q.out), 32)] {
			iov = append(iov, f.Head)
			if len(f.Rest) > 0 {
				iov = append(iov, f.Rest)
			}
		}
		q.p.iov = iov
		skipBytes(&iov, q.outAt)
		n, err := q.conn.Write(iov)
		clear(q.p.iov)
		if err != nil && err != transport.ErrAgain {
			q.broken(err)
			return
		}
		q.written(n)
		if err == transport.ErrAgain || len(q.out) > 0 && q.outAt > 0 {
			q.arm(true)
			return
		}
	}
	if q.conn.Unsent() {
		if err := q.conn.Flush(); err != nil && err != transport.ErrAgain {
			q.broken(err)
			return
		}
	}
	q.arm(q.conn.Unsent())
}

// skipBytes drops the first n bytes.
func skipBytes(iov *[][]byte, n int) {
	for n > 0 {
		first := (*iov)[0]
		if n < len(first) {
			(*iov)[0] = first[n:]
			return
		}
		n -= len(first)
		*iov = (*iov)[1:]
	}
}

// written takes n written bytes off what is to be written.
func (q *peer) written(n int) {
	n += q.outAt
	i := 0
	for i < len(q.out) && n >= q.out[i].Len() {
		n -= q.out[i].Len()
		q.out[i] = transport.Frame{}
		i++
	}
	if q.outAt = n; i == len(q.out) {
		q.out = q.out[:0]
	} else {
		q.out = q.out[i:]
	}
}

// arm says whether room in the socket is waited for.
func (q *peer) arm(on bool) {
	if on != q.armed {
		q.armed = on
		_ = q.p.poll.output(q.conn.Fd(), int32(q.rank)<<1, on)
	}
}

// readsMax is how often one peer is read before the others have their turn.
const readsMax = 16

// read takes what has come and handles it; it tells whether there may be more.
func (q *peer) read() (more bool) {
	// What a connection has buffered does not show at the poller: it is read to
	// the end.
	for n := 0; q.conn != nil && (n < readsMax || q.conn.Buffered()); n++ {
		if more = q.readOnce(); !more {
			break
		}
	}
	if q.conn != nil && q.link.Owes() {
		q.out = append(q.out, q.link.Alive())
		q.flush()
	}
	if len(q.queue) > 0 {
		q.pump()
	}
	return more && q.conn != nil
}

// readOnce makes one read and handles what it brought.
func (q *peer) readOnce() (more bool) {
	var room []byte
	at := 0
	if q.left64 > 0 {
		room = q.bodyRoom()
	} else {
		room = q.p.readRoom()
		at = copy(room, q.partial)
	}
	n, err := q.conn.Read(room[at:])
	if err != nil {
		if err != transport.ErrAgain {
			q.broken(err)
		}
		return false
	}
	if q.heard.IsZero() {
		q.heard = time.Now()
	}
	if q.left64 > 0 {
		err = q.body(n)
	} else {
		q.partial = q.partial[:0]
		err = q.parse(room[:at+n])
	}
	if err != nil {
		q.broken(err)
		return false
	}
	return n == len(room)-at || q.conn != nil && q.conn.Buffered()
}

// readRoom is memory to read into.
func (p *Process) readRoom() []byte {
	if p.scratch == nil {
		p.scratch = make([]byte, 160<<10)
	}
	return p.scratch
}

// bodyRoom is where the rest of the present frame goes.
func (q *peer) bodyRoom() []byte {
	if q.into == nil { // it came before
		return q.p.readRoom()[:min(uint64(len(q.p.scratch)), q.left64)]
	}
	at := q.into.filled + int(q.head.Length-q.left64)
	return q.into.value[at : at+int(q.left64)]
}

// body takes note that n more bytes of the present frame have come.
func (q *peer) body(n int) error {
	if q.left64 -= uint64(n); q.left64 > 0 {
		return nil
	}
	in := q.into
	q.into = nil
	if _, err := q.link.Arrive(q.head); err != nil || in == nil {
		return err
	}
	in.filled += int(q.head.Length)
	if uint64(in.filled) == in.size {
		delete(q.parts, in.id)
		in.complete = true
		if in.arrived != nil {
			in.arrived()
		}
	}
	return nil
}

// parse handles the frames in b and keeps what is not yet one.
func (q *peer) parse(b []byte) error {
	for len(b) >= wire.HeaderLen {
		h, err := wire.ParseHeader(b)
		if err != nil {
			return err
		}
		if h.Kind == wire.Part {
			used, err := q.beginPart(h, b[wire.HeaderLen:])
			if err != nil {
				return err
			}
			if q.conn == nil { // handling it ended the connection
				return nil
			}
			b = b[wire.HeaderLen+used:]
			continue
		}
		if h.Length > envelopeLen+eagerMax {
			return fmt.Errorf("%w: a %v of %d bytes", wire.ErrFrame, h.Kind, h.Length)
		}
		end := wire.HeaderLen + int(h.Length)
		if len(b) < end {
			break
		}
		fresh, err := q.link.Arrive(h)
		if err != nil {
			return err
		}
		switch {
		case fresh && h.Kind == wire.Data:
			if err := q.data(h, b[wire.HeaderLen:end]); err != nil {
				return err
			}
		case fresh && h.Kind == wire.Bye:
			q.left = true
		}
		if q.conn == nil { // handling it ended the connection
			return nil
		}
		b = b[end:]
	}
	q.partial = append(q.partial, b...)
	return nil
}

// beginPart begins to read a part of a large message, and takes what of it is
// there.
func (q *peer) beginPart(h wire.Header, b []byte) (used int, err error) {
	q.head, q.left64, q.into = h, h.Length, nil
	if h.Number == q.link.Arrived()+1 {
		in := q.parts[h.Tag]
		if in == nil || !in.granted || h.Length == 0 || h.Length > in.size-uint64(in.filled) || h.Length > roomMax {
			return 0, fmt.Errorf("%w: %d bytes for message %d, which has no room for them", wire.ErrFrame, h.Length, h.Tag)
		}
		in.makeRoom(int(h.Length))
		q.into = in
	}
	used = int(min(uint64(len(b)), h.Length))
	if q.into != nil {
		copy(q.bodyRoom(), b[:used])
	}
	return used, q.body(used)
}

var errEnvelope = errors.New("bad envelope")

// data handles a message, or its beginning.
func (q *peer) data(h wire.Header, b []byte) error {
	if len(b) < envelopeLen {
		return fmt.Errorf("%w: of %d bytes", errEnvelope, len(b))
	}
	in := q.p.passing()
	in.envelope, in.source, in.id = parseEnvelope(b), q, h.Tag
	first := b[envelopeLen:]
	switch {
	case in.size < uint64(len(first)), in.size > 1<<46, (h.Tag != 0) != (in.size > uint64(len(first))):
		return fmt.Errorf("%w: a value of %d bytes of which %d are here", errEnvelope, in.size, len(first))
	case int(in.from) >= len(q.p.owner), int(in.to) >= len(q.p.owner):
		return fmt.Errorf("%w: from task %d to task %d", errEnvelope, in.from, in.to)
	case int(q.p.owner[in.from]) != q.rank, int(q.p.owner[in.to]) != q.p.cfg.Rank:
		return fmt.Errorf("%w: from task %d to task %d, from process %d to %d", errEnvelope, in.from, in.to, q.rank, q.p.cfg.Rank)
	}
	in.value = q.p.keep(first)
	in.filled = len(first)
	in.complete = h.Tag == 0
	if !in.complete {
		if q.parts == nil {
			q.parts = map[uint32]*incoming{}
		}
		in = in.stay()
		q.parts[in.id] = in
	}
	q.p.dispatch(in)
	return nil
}

// broken ends a connection that is of no more use. What the peer does not have
// is sent again on the next one.
func (q *peer) broken(err error) {
	if q.conn == nil {
		return
	}
	q.p.cfg.Logger.Info("connection broken", "peer", q.rank, "error", err)
	q.disconnect()
	q.reconnect()
}
