package node

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
)

// readsMax is how often one peer is read before the others have their turn, and readMax how many
// bytes of it: where a large value goes, each page is a fault.
const (
	readsMax = 16
	readMax  = 512 << 10
)

// read takes what has come and handles it; it tells whether there may be more.
func (q *peer) read() (more bool) {
	// What a connection has buffered does not show at the poller: it is read to
	// the end.
	before := q.p.mesh.moved
	for n := 0; q.conn != nil && (n < readsMax && q.p.mesh.moved-before < readMax || q.conn.Buffered()); n++ {
		if more = q.readOnce(); !more {
			break
		}
	}
	q.asksAck = false // this may be the answer
	if len(q.p.mesh.settling) > 0 {
		q.p.settlesNow()
	}
	if q.conn != nil && q.link.Owes() {
		q.out = append(q.out, q.link.Alive())
		q.flush()
	}
	if len(q.queue) > 0 {
		q.pump()
	}
	if more = more && q.conn != nil; more && q.conn.Shared() {
		q.p.lookAgain(q) // nothing else says that there is more
	}
	return more
}

// readOnce makes one read and handles what it brought.
func (q *peer) readOnce() (more bool) {
	var room []byte
	at := 0
	if q.toCome > 0 {
		room = q.bodyRoom()
	} else {
		room = q.p.readRoom()
		if len(q.parts) > 0 { // what comes is most likely a part, which has a place of its own
			room = room[:len(q.partial)+headRoom]
		}
		at = copy(room, q.partial)
	}
	n, err := q.conn.Read(room[at:])
	if err != nil {
		if err != transport.ErrAgain {
			q.broken(err)
		}
		return false
	}
	q.p.mesh.moved += uint64(n)
	if q.sign != nil && !q.sign.fresh.Load() {
		q.sign.fresh.Store(true)
	}
	if q.toCome > 0 {
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

// headRoom is how much is read where the head of a large frame is expected.
const headRoom = 4 << 10

// readRoom is memory to read into.
func (p *Process) readRoom() []byte {
	if p.mesh.scratch == nil {
		p.mesh.scratch = make([]byte, 160<<10)
	}
	return p.mesh.scratch
}

// bodyRoom is where the rest of the present frame goes.
func (q *peer) bodyRoom() []byte {
	if q.into == nil || q.into.Void() { // it came before
		return q.p.readRoom()[:min(uint64(len(q.p.mesh.scratch)), q.toCome)]
	}
	at := q.into.filled + int(q.head.Length-q.toCome)
	return q.into.value[at : at+int(q.toCome)]
}

// body takes note that n more bytes of the present frame have come.
func (q *peer) body(n int) error {
	if q.toCome -= uint64(n); q.toCome > 0 {
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
		in.Came()
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
	q.head, q.toCome, q.into = h, h.Length, nil
	if h.Number == q.link.Arrived()+1 {
		in := q.parts[h.Tag]
		if in == nil || !in.Answered() || h.Length == 0 || h.Length > in.size-uint64(in.filled) || h.Length > roomFirst {
			return 0, fmt.Errorf("%w: %d bytes for message %d, which has no room for them", wire.ErrFrame, h.Length, h.Tag)
		}
		if q.into = in; !in.Void() {
			in.makeRoom(int(h.Length))
		}
	}
	used = int(min(uint64(len(b)), h.Length))
	if q.into != nil && !q.into.Void() {
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
	case in.size < uint64(len(first)), in.size > sizeMax/2, (h.Tag != 0) != (in.size > uint64(len(first))):
		return fmt.Errorf("%w: a value of %d bytes of which %d are here", errEnvelope, in.size, len(first))
	case in.plan.op == opBeat, in.plan.op == opView, in.plan.op == opAbort, in.plan.op == opAborts: // of a process, which may own no task
	case !q.p.roster.Has(uint64(in.from)), !q.p.roster.Has(uint64(in.to)):
		return fmt.Errorf("%w: from task %d to task %d", errEnvelope, in.from, in.to)
	case q.p.replays(): // who owns what may be news to come: either of us may be a view behind
	case q.p.roster.Owner(int(in.from)) != q.rank, !q.p.roster.Mine(int(in.to)):
		return fmt.Errorf("%w: from task %d to task %d, from process %d to %d", errEnvelope, in.from, in.to, q.rank, q.p.cfg.Rank)
	}
	in.value, in.brief = first, true
	in.filled = len(first)
	if h.Tag == 0 {
		in.Came()
	} else {
		if q.parts == nil {
			q.parts = map[uint32]*incoming{}
		}
		in = in.stay()
		q.parts[in.id] = in
	}
	q.p.dispatch(in)
	if !in.Complete() {
		in.settle()
	}
	return nil
}
