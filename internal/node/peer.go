package node

import (
	"errors"
	"sync"
	"syscall"

	"github.com/coppice-go/coppice/internal/node/engine"
	"github.com/coppice-go/coppice/internal/segment"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/grant"
)

// mesh is the other processes, and the ways to them.
type mesh struct {
	peers     []*peer // by rank of process
	up        []*peer // connected
	unshared  int     // of them without shared memory
	linksDown bool    // there may be peers that cannot be reached
	lingering []*peer // for whom something lingers
	moved     uint64  // bytes read and written

	sockets  *sockets       // nil: all processes are goroutines
	shares   *segment.Inbox // nil: no memory is shared with others
	dials    int            // connections that are being made
	undialed []*peer        // that wait for their turn

	scratch  []byte   // what is read
	iov      [][]byte // what is written
	one      incoming // the message at hand, mostly
	freeIn   []*incoming
	early    grant.Room  // for what nobody has asked for
	settling engine.Line // for peers to have all that was sent

	// Where processes are goroutines: what others sent.
	hub        *Local
	post       sync.Mutex
	inbox      []mail
	spareInbox []mail
}

// peer is another process, as seen from this one.
type peer struct {
	p       *Process
	rank    int
	host    string // tells hosts apart
	records string // the directory of its record
	dead    bool   // certainly, or given up
	left    bool   // ended well
	gone    bool   // it left, and a view goes on without it: it may only hear of that

	// early: the view that is open has an earlier life of the process. What is sent to a member of that
	// view is for the earlier one, which is dead; the next view will say what this one needs.
	early bool

	// A process of this program: messages are handed over in memory.
	local *Process

	// A process elsewhere; see connect.go for how connections come about.
	link        *transport.Link
	conn        *transport.Conn
	pidfd       int // −1: none
	incarnation uint64
	asksAck     bool // it was asked to say what has arrived
	way         way

	out   []transport.Frame // to be written
	armed bool              // the poller waits for room in the socket

	lingers bool        // it is on the list of those for whom something lingers
	queue   []*outgoing // messages that may go out, as soon as the link has room
	asked   grant.Out[*outgoing]

	partial []byte               // the beginning of a frame
	parts   map[uint32]*incoming // large messages that come in parts
	into    *incoming            // the frame that is being read belongs to this one; nil: to nobody
	toCome  uint64               // so much of it is still to come
	head    wire.Header
	sign    *sign // what comes is one of life; nil: it is not observed
}

func newPeer(p *Process, rank int, incarnation uint64) *peer {
	q := &peer{p: p, rank: rank, pidfd: -1, incarnation: incarnation}
	if hub := p.hub(); hub != nil {
		q.local = hub.process(rank)
	}
	return q
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
	if errors.Is(err, syscall.ETIMEDOUT) { // for so long it was of no use already
		q.way.down = max(q.way.down-protocol.Time(q.p.stallTime()), 1)
	}
}
