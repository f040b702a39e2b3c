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
	kept     []Frame // numbers acked+1 … sent, in order
	sent     uint64  // number of the last frame
	acked    uint64  // the peer has all frames up to this one
	arrived  uint64  // we have all of its frames up to this one
	told     uint64  // and have told it so up to this one
	untold   int     // bytes that arrived since
	finished bool    // the peer has said Bye
}

// Frame is a frame to write, perhaps again.
type Frame struct {
	Header  wire.Header
	Payload []byte
}

// frameCost is what a frame without payload counts, so that a million of them
// are not free.
const frameCost = 64

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
	return len(l.kept) == 0 || l.bytes+n+frameCost <= l.room
}

// Send numbers a frame and keeps it. The payload must not change until the peer
// has acknowledged it. The caller has asked for Room.
func (l *Link) Send(kind wire.Kind, tag uint32, payload []byte) Frame {
	l.sent++
	f := Frame{
		Header:  wire.Header{Length: uint64(len(payload)), Number: l.sent, Kind: kind, Tag: tag},
		Payload: payload,
	}
	l.kept = append(l.kept, f)
	l.bytes += len(payload) + frameCost
	return l.Stamp(f)
}

// Stamp puts the latest acknowledgement into a frame that is about to be
// written.
func (l *Link) Stamp(f Frame) Frame {
	f.Header.Ack = l.arrived
	l.told, l.untold = l.arrived, 0
	return f
}

// Alive is a frame that carries the acknowledgement and nothing else.
func (l *Link) Alive() Frame { return l.Stamp(Frame{Header: wire.Header{Kind: wire.Alive}}) }

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
		l.bytes -= len(l.kept[0].Payload) + frameCost
		l.kept[0] = Frame{}
		l.kept = l.kept[1:]
	}
	if len(l.kept) == 0 {
		l.kept = nil // and with it the array whose beginning is no longer used
	}
}

// Arrived is the number up to which all of the peer's frames have arrived: what
// the handshake of the next connection tells it.
func (l *Link) Arrived() uint64 { return l.arrived }

// Settled tells whether the peer has everything.
func (l *Link) Settled() bool { return len(l.kept) == 0 }

// Resume begins a new connection, on whose handshake the peer said what has
// arrived. It returns what has to be written first; Stamp each before it is.
func (l *Link) Resume(arrived uint64) ([]Frame, error) {
	if arrived < l.acked || arrived > l.sent {
		return nil, fmt.Errorf("%w: the peer has frame %d, we keep %d to %d", ErrLost, arrived, l.acked+1, l.sent)
	}
	l.forget(arrived)
	return l.kept, nil
}
