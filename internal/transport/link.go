package transport

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/internal/wire"
)

// Link is one end of a link between two processes: numbers, and the frames the
// peer may not have yet. It does no input or output, keeps no time and is not
// safe for concurrent use.
type Link struct {
	room     int     // bytes that may be kept
	bytes    int     // that are
	kept     []Frame // numbers acked+1 … sent, in order, from first on
	first    int
	slab     []byte // where the next heads are made
	sent     uint64 // number of the last frame
	acked    uint64 // the peer has all frames up to this one
	arrived  uint64 // we have all of its frames up to this one
	told     uint64 // and have told it so up to this one
	untold   int    // bytes that arrived since
	finished bool   // the peer has said Bye
}

// Frame is a frame to write, perhaps again: its bytes are Head, which begins
// with the header, and then Rest.
type Frame struct {
	Head, Rest []byte
}

// Len is the number of bytes to write.
func (f Frame) Len() int { return len(f.Head) + len(f.Rest) }

// frameCost is what a frame without payload counts, so that a million of them
// are not free.
const frameCost = 64

// slabLen is how much room for heads is made at a time.
const slabLen = 16 << 10

// NewLink returns an end of a new link that keeps at most so many bytes for its
// peer.
func NewLink(room int) *Link { return &Link{room: room} }

// Errors of links.
var (
	// ErrLost: the link cannot be resumed. Both ends report the peer as
	// suspect.
	ErrLost = errors.New("link lost")
	// ErrPeer: the peer broke the rules of the link. The connection is of no
	// more use.
	ErrPeer = errors.New("link broken by its peer")
)

// Room tells whether another frame with a payload of n bytes may be sent. One
// may always be sent on a link that keeps nothing, however large.
func (l *Link) Room(n int) bool {
	return l.first == len(l.kept) || l.bytes+n+frameCost <= l.room
}

// Head returns memory for a frame's header and n bytes of payload after it, to
// be filled and given to Send at once.
func (l *Link) Head(n int) []byte {
	n += wire.HeaderLen
	if n > slabLen/4 {
		return make([]byte, n)
	}
	if len(l.slab)+n > cap(l.slab) {
		l.slab = make([]byte, 0, slabLen)
	}
	at := len(l.slab)
	l.slab = l.slab[:at+n]
	return l.slab[at : at+n : at+n]
}

// Send numbers a frame and keeps it. head is from Head; rest, the remainder of
// a large payload, must not change until the peer has acknowledged it. The
// caller has asked for Room.
func (l *Link) Send(kind wire.Kind, tag uint32, head, rest []byte) Frame {
	l.sent++
	f := Frame{Head: head, Rest: rest}
	wire.Header{Length: uint64(f.Len() - wire.HeaderLen), Number: l.sent, Kind: kind, Tag: tag}.Put(head)
	l.kept = append(l.kept, f)
	l.bytes += f.Len() + frameCost
	return l.Stamp(f)
}

// Stamp puts the latest acknowledgement into a frame that is about to be
// written.
func (l *Link) Stamp(f Frame) Frame {
	wire.PutAck(f.Head, l.arrived)
	l.told, l.untold = l.arrived, 0
	return f
}

// Alive is a frame that carries the acknowledgement and nothing else. It is not
// kept, so its memory is its own: that of heads is used again once the peer has
// everything that is.
func (l *Link) Alive() Frame {
	f := Frame{Head: make([]byte, wire.HeaderLen)}
	wire.Header{Kind: wire.Alive}.Put(f.Head)
	return l.Stamp(f)
}

// Owes tells whether the peer should be told what arrived even if there is
// nothing else to send it: it may be out of room.
func (l *Link) Owes() bool { return l.untold*4 >= l.room || l.arrived-l.told >= 256 }

// Arrive takes note of a frame. fresh tells whether it is to be handed on; one
// that came before is not.
func (l *Link) Arrive(h wire.Header) (fresh bool, err error) {
	if h.Ack > l.sent {
		return false, fmt.Errorf("%w: it acknowledges frame %d of %d", ErrPeer, h.Ack, l.sent)
	}
	l.forget(h.Ack)
	switch {
	case h.Number == 0 || h.Number <= l.arrived:
		return false, nil
	case h.Number != l.arrived+1:
		return false, fmt.Errorf("%w: frame %d after %d", ErrPeer, h.Number, l.arrived)
	case l.finished:
		return false, fmt.Errorf("%w: a frame after its last one", ErrPeer)
	}
	l.arrived++
	l.untold += int(min(h.Length, 1<<40)) + frameCost
	l.finished = h.Kind == wire.Bye
	return true, nil
}

// forget drops what the peer has.
func (l *Link) forget(ack uint64) {
	for l.acked < ack {
		l.acked++
		l.bytes -= l.kept[l.first].Len() + frameCost
		l.kept[l.first] = Frame{}
		l.first++
	}
	switch {
	case l.first == len(l.kept): // nothing is kept: begin again in the same memory
		l.kept, l.first, l.slab = l.kept[:0], 0, l.slab[:0]
	case l.first >= 1024 && 2*l.first >= len(l.kept):
		n := copy(l.kept, l.kept[l.first:])
		clear(l.kept[n:])
		l.kept, l.first = l.kept[:n], 0
	}
}

// Arrived is the number up to which all of the peer's frames have arrived: what
// the handshake of the next connection tells it.
func (l *Link) Arrived() uint64 { return l.arrived }

// Acked is the number up to which the peer is known to have all of our frames: a
// handshake that says less is an old one.
func (l *Link) Acked() uint64 { return l.acked }

// Settled tells whether the peer has everything.
func (l *Link) Settled() bool { return l.first == len(l.kept) }

// Resume begins a new connection, on whose handshake the peer said what has
// arrived. It returns what has to be written first; Stamp each before it is.
func (l *Link) Resume(arrived uint64) ([]Frame, error) {
	if arrived < l.acked || arrived > l.sent {
		return nil, fmt.Errorf("%w: the peer has frame %d, we keep %d to %d", ErrLost, arrived, l.acked+1, l.sent)
	}
	l.forget(arrived)
	l.slab = nil // frames of the old connection may still be in somebody's hands
	return l.kept[l.first:], nil
}
