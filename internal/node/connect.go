package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/grant"
)

// sockets is what a process needs to reach others.
type sockets struct {
	endpoint *transport.Endpoint
	ctx      context.Context // ends with the process
	cancel   context.CancelFunc

	observation *observation
}

// way is how a connection to a peer comes about: whoever needs one first makes
// it. If both do at once, that of the lower rank stays. One that breaks is made
// again by either, and the link goes on where it was.
type way struct {
	known     bool
	address   transport.Address
	dialing   bool
	accepting bool          // theirs is being made
	pausing   bool          // until the next try
	tries     int           // that failed in a row
	late      int           // of these, handshakes that were not done in time
	down      protocol.Time // since when there is no connection, though there was or should be one
	suspected bool
	turn      uint64 // changes with every connection, so that one that comes late is known
}

// Address is where a peer listens.
type Address struct {
	Rank        int
	Incarnation uint64
	At          transport.Address
	Host        string // tells hosts apart
	Records     string // the directory where it keeps its record; empty: not on this host
}

// Socket is what a process that uses sockets is told besides Config.
type Socket struct {
	Job         [16]byte
	Key         []byte
	Incarnation uint64
	Places      []transport.Place // where to listen
	Shares      int               // so many processes of this host share memory; 0: this one does not

	Page      *detect.Page // in which processes of this host beat; nil: there is none. The caller closes it
	Datagrams bool         // signs of life to other hosts are datagrams

	// Visit and Visited are those of transport.Config, for who means the coordinator.
	Visit   func(wire.Identity) (wire.Identity, wire.Refusal)
	Visited func(net.Conn, wire.Identity)
}

// New returns a process that reaches its peers by sockets.
func New(cfg Config, s Socket) (*Process, error) {
	cfg.Incarnation = s.Incarnation
	cfg.gather = true
	p, err := newProcess(cfg)
	if err != nil {
		return nil, err
	}
	if err := p.engine.Poll(); err != nil {
		return nil, err
	}
	p.mesh.sockets = &sockets{}
	p.share(s.Shares)
	p.mesh.sockets.ctx, p.mesh.sockets.cancel = context.WithCancel(context.Background())
	p.mesh.sockets.endpoint, err = transport.Listen(transport.Config{
		Key:         s.Key,
		Self:        wire.Identity{Job: s.Job, From: uint32(cfg.Rank), Incarnation: s.Incarnation},
		Decide:      p.decide,
		Established: p.established,
		Abandoned:   p.abandoned,
		Visit:       s.Visit,
		Visited:     s.Visited,
		StallTime:   p.stallTime(),
		Inbox:       p.mesh.shares,
		Ring:        ringFor(s.Shares),
		Logger:      p.cfg.Logger,
	}, s.Places...)
	if err != nil {
		p.engine.Stop()
		p.unshare()
		return nil, err
	}
	p.mesh.sockets.observation = p.observe(s)
	p.mesh.peers[cfg.Rank].local = p // what a task sends to itself
	p.engine.Lock()
	p.patrol()
	p.mesh.sockets.observation.run()
	switch {
	case cfg.Joins:
		p.joinViews()
	case cfg.Rank == 0 && cfg.Host != nil:
		go cfg.Host.Opened(p.view())
	}
	p.warmLater()
	p.engine.Unlock()
	p.engine.Run()
	return p, nil
}

// stallTime is how long a connection may be of no use before it is made again.
func (p *Process) stallTime() time.Duration { return p.cfg.Silence / 2 }

// Endpoint is where the process listens.
func (p *Process) Endpoint() *transport.Endpoint { return p.mesh.sockets.endpoint }

// Peers tells where peers listen.
func (p *Process) Peers(all ...Address) {
	p.engine.Lock()
	defer p.engine.Unlock()
	for _, a := range all {
		if a.Rank == p.cfg.Rank {
			continue
		}
		q := p.reborn(a.Rank, a.Incarnation)
		begins := !q.way.known
		q.way.known, q.way.address = true, a.At
		q.host, q.records = a.Host, a.Records
		p.knowPeer(q)
		if begins {
			p.viewHeard(q)
		}
		if q.link != nil && (!q.link.Settled() || q.way.down != 0) {
			q.connect()
		}
	}
}

// connect makes a connection, if there is none and none is on its way.
func (q *peer) connect() {
	w := &q.way
	if q.dead || q.left || q.conn != nil || q.local != nil || q.p.engine.Stopped() ||
		!w.known || w.dialing || w.accepting || w.pausing {
		return
	}
	w.dialing = true
	if q.p.mesh.dials >= dialsMax {
		q.p.mesh.undialed = append(q.p.mesh.undialed, q)
		return
	}
	q.p.mesh.dials++
	reach, whole := q.dialTimes()
	go q.dial(w.address, q.identity(), reach, whole)
}

// dialsMax bounds the connections that a process makes at once: where hundreds of
// processes start on a few processors, more would only keep each other waiting.
const dialsMax = 16

// nextDial lets the next one begin that waits for its turn.
func (p *Process) nextDial() {
	p.mesh.dials--
	for len(p.mesh.undialed) > 0 && p.mesh.dials < dialsMax {
		q := p.mesh.undialed[0]
		p.mesh.undialed = p.mesh.undialed[1:]
		q.way.dialing = false
		q.connect()
	}
}

// dialTimes returns how long the peer's kernel has to answer a try to connect, and how long the whole try may take. Over
// a network both are short at first: what is lost takes long to be sent again. But a peer whose kernel answers may be busy, together
// with hundreds of others, so that a handshake that was late is given twice the time when it is tried again.
func (q *peer) dialTimes() (reach, whole time.Duration) {
	const long = 10 * time.Second
	if q.way.address.Kind == transport.Unix {
		return long, long
	}
	reach = max(q.p.cfg.Silence/8, 200*time.Millisecond) * time.Duration(4+q.way.tries) / 4
	return reach, min(reach+q.p.stallTime()<<min(q.way.late, 10), long)
}

// identity is what a handshake tells the peer.
func (q *peer) identity() wire.Identity {
	id := wire.Identity{To: uint32(q.rank), Life: q.incarnation}
	if q.link != nil {
		id.Received = q.link.Arrived()
	}
	return id
}

func (q *peer) dial(at transport.Address, me wire.Identity, reach, whole time.Duration) {
	p := q.p
	ctx, cancel := context.WithTimeout(p.mesh.sockets.ctx, whole)
	conn, err := p.mesh.sockets.endpoint.Dial(ctx, at, me, reach)
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	cancel()
	p.engine.Lock()
	defer p.engine.Unlock()
	q.way.dialing = false
	if late {
		q.way.late++
	}
	defer p.nextDial()
	var refusal wire.Refusal
	switch {
	case err == nil && q.incarnation != 0 && conn.Peer().Incarnation != q.incarnation:
		// Its next life listens where it did; we shall be told of that.
		conn.Close()
		q.retry(p.cfg.Silence / 8)
	case err == nil && q.identity().Received != me.Received:
		// Theirs came in between and brought something: what the peer was told
		// is not true any more.
		conn.Close()
		q.connect()
	case err == nil:
		q.attach(conn)
	case p.engine.Stopped() || q.dead || q.conn != nil: // no matter: it is dead, or theirs came
	case errors.As(err, &refusal) && (refusal == wire.Closing || refusal == wire.Excluded):
		p.cfg.Logger.Info("turned away", "peer", q.rank, "why", refusal)
		q.ask()
		q.retry(p.cfg.Silence / 8)
	case errors.As(err, &refusal) && refusal == wire.Crossed:
		q.retry(20 * time.Millisecond) // theirs comes; if it does not, again
	case errors.Is(err, fs.ErrPermission) && at.Kind == transport.Unix: // nor at the next try: this process has not the user that it had
		p.cfg.Logger.Warn("no connection", "peer", q.rank, "error", err)
		p.end(fmt.Errorf("%w; a program that changes its user while it runs needs %s=%s", err, transport.ChooseVariable, transport.Unix))
	default:
		p.cfg.Logger.Debug("no connection", "peer", q.rank, "error", err)
		if q.way.tries == 0 {
			q.ask()
		}
		q.retry(0)
	}
}

// retry tries again after a while; 0: the longer, the more often it failed.
func (q *peer) retry(after time.Duration) {
	w := &q.way
	if q.conn != nil || q.p.engine.Stopped() { // theirs has come
		return
	}
	if w.down == 0 {
		w.down, q.p.mesh.linksDown = q.p.engine.Now(), true
		q.p.patrolSoon()
	}
	if after == 0 {
		after = time.Millisecond << min(w.tries, 8)
		w.tries++
	}
	w.pausing = true
	q.p.engine.At(q.p.engine.Now()+protocol.Time(after), func() {
		w.pausing = false
		q.connect()
	})
}

// decide answers a peer that has proven who it is.
func (p *Process) decide(id wire.Identity) (me wire.Identity, verdict wire.Refusal) {
	p.engine.Lock()
	defer p.engine.Unlock()
	rank := int(id.From)
	if rank >= p.cfg.Size+p.cfg.Grow || rank == p.cfg.Rank {
		return me, wire.NotMe
	}
	if q := p.peerAt(rank); q.dead || q.incarnation == 0 {
		p.reborn(rank, id.Incarnation)
	}
	q := p.mesh.peers[rank]
	w := &q.way
	switch {
	case p.engine.Stopped():
		return me, wire.Closing
	case q.dead || id.Incarnation < q.incarnation:
		return me, wire.Excluded
	case id.Incarnation > q.incarnation: // the life before is not known to be over
		return me, wire.Crossed
	case id.Life != 0 && id.Life != p.cfg.Incarnation: // our life before listened here
		return me, wire.NotMe
	case w.dialing && p.cfg.Rank < rank, w.accepting:
		return me, wire.Crossed
	case q.link != nil && id.Received < q.link.Acked():
		return me, wire.Crossed // begun before the connection that we have
	}
	// From here on nothing more may arrive on an old connection, so that what
	// we say has arrived stays true.
	q.disconnect()
	w.accepting = true
	w.turn++
	me = q.identity()
	me.Link = w.turn
	return me, wire.Accepted
}

func (p *Process) established(conn *transport.Conn) {
	p.engine.Lock()
	defer p.engine.Unlock()
	q := p.mesh.peers[conn.Peer().From]
	if conn.Self().Link != q.way.turn { // ours came in between
		conn.Close()
		return
	}
	q.attach(conn)
}

func (p *Process) abandoned(id wire.Identity) {
	p.engine.Lock()
	defer p.engine.Unlock()
	q := p.mesh.peers[id.From]
	q.way.accepting = false
	if q.link != nil {
		q.retry(0)
	}
}

// attach makes a connection the peer's, in place of any that it had.
func (q *peer) attach(conn *transport.Conn) {
	p := q.p
	q.way.accepting = false
	q.way.turn++
	if p.engine.Stopped() || q.dead {
		conn.Close()
		return
	}
	q.disconnect()
	q.linked()
	again, err := q.link.Resume(conn.Peer().Received)
	if err == nil {
		err = p.engine.Watch(conn.Fd(), int32(q.rank)<<1)
	}
	if err != nil {
		conn.Close()
		p.cfg.Logger.Error("link lost", "peer", q.rank, "error", err)
		p.suspect(q, err.Error())
		return
	}
	q.conn = conn
	q.way.tries, q.way.late, q.way.down, q.way.suspected = 0, 0, 0, false
	for _, f := range again {
		q.out = append(q.out, q.link.Stamp(f))
	}
	p.mesh.up = append(p.mesh.up, q)
	if !conn.Shared() {
		p.mesh.unshared++
	}
	if fd := conn.PidfdTake(); fd >= 0 {
		q.watchProcess(fd)
	}
	if q.dead {
		return
	}
	q.pump()
	switch {
	case q.conn == nil:
	case q.conn.Buffered():
		q.read()
	case q.conn.Shared(): // the peer may have marked something before this process could read it
		p.lookAgain(q)
	}
	q.asksAck = false
	p.settlesNow()
}

// watchProcess watches the peer's process, if that is not done yet.
func (q *peer) watchProcess(fd int) {
	if q.pidfd >= 0 {
		posix.Close(fd)
		return
	}
	if err := q.p.engine.Watch(fd, int32(q.rank)<<1|1); err != nil {
		posix.Close(fd)
		return
	}
	q.pidfd = fd
}

// disconnect drops the connection, if there is one. The link stays.
func (q *peer) disconnect() {
	if q.conn == nil {
		return
	}
	q.p.engine.Unwatch(q.conn.Fd())
	if !q.conn.Shared() {
		q.p.mesh.unshared--
	}
	q.conn.Close()
	q.conn, q.armed = nil, false
	q.out = nil
	q.partial, q.toCome, q.into = nil, 0, nil
	// A copy: somebody may be going through the old one.
	q.p.mesh.up = slices.DeleteFunc(slices.Clone(q.p.mesh.up), func(o *peer) bool { return o == q })
}

// reconnect makes a connection again after one broke.
func (q *peer) reconnect() {
	p := q.p
	if p.engine.Stopped() || q.dead || q.left {
		return
	}
	q.ask()
	q.way.down, p.mesh.linksDown = p.engine.Now(), true
	p.patrolSoon()
	q.connect()
}

// ask asks who knows whether the peer lives.
func (q *peer) ask() {
	if h := q.p.cfg.Host; h != nil {
		go h.Ask(q.rank)
	}
}

// forget drops all that a dead peer leaves.
func (q *peer) forget() {
	q.disconnect()
	if q.pidfd >= 0 {
		q.p.engine.Unwatch(q.pidfd)
		posix.Close(q.pidfd)
		q.pidfd = -1
	}
	for _, o := range q.queue {
		q.p.sentAll(o)
	}
	for o := range q.asked.All() {
		q.p.sentAll(o)
	}
	for _, in := range q.parts {
		in.taken()
	}
	q.link, q.queue, q.asked, q.parts = nil, nil, grant.Out[*outgoing]{}, nil
	if !q.p.engine.Stopped() {
		q.p.observation().gone(q.rank)
	}
}

// suspect reports a peer that cannot be reached. Who started the job decides;
// without one, this process gives it up.
func (p *Process) suspect(q *peer, why string) {
	if q.way.suspected || q.dead {
		return
	}
	q.way.suspected = true
	p.cfg.Logger.Warn("suspected", "peer", q.rank, "by", p.cfg.Rank, "why", why)
	if p.cfg.Host == nil {
		p.viewSuspect(q.rank, q.incarnation)
		return
	}
	go p.cfg.Host.Suspect(q.rank, q.incarnation, why)
	if q.host != p.cfg.HostName { // several agree; whether it is evicted, a majority decides
		p.viewSuspect(q.rank, q.incarnation)
		return
	}
	// On its own host the coordinator knows better. If it does not answer, the others
	// decide.
	p.engine.At(p.engine.Now()+protocol.Time(p.cfg.Silence/2), func() {
		if p.mesh.peers[q.rank] == q && !q.dead && q.way.suspected {
			p.viewSuspect(q.rank, q.incarnation)
		}
	})
}

// Alive tells that a process that this one suspects is alive, for all its host
// knows: the silence begins anew.
func (p *Process) Alive(rank int) {
	p.engine.Lock()
	defer p.engine.Unlock()
	q := p.peerAt(rank)
	if q.dead || p.engine.Stopped() {
		return
	}
	q.way.suspected = false
	if q.way.down != 0 {
		q.way.down = p.engine.Now()
	}
	go p.observation().heard(rank)
}

// Close ends the process: peers are told that it leaves, and everything it holds
// is given back.
func (p *Process) Close() error {
	p.engine.Lock()
	if p.engine.Stopped() {
		p.engine.Unlock()
		return nil
	}
	well := p.ended == nil
	p.end(errOver)
	p.engine.Halt()
	for _, q := range slices.Clone(p.mesh.up) {
		if well { // otherwise the others take it for dead, as it is for them
			q.out = append(q.out, q.link.Send(wire.Bye, 0, q.link.Head(0), nil))
		}
		q.flush()
	}
	for r := range p.mesh.peers {
		p.mesh.peers[r].forget()
	}
	p.engine.Unlock()
	p.mesh.sockets.cancel()
	p.mesh.sockets.observation.close()
	err := p.mesh.sockets.endpoint.Close()
	p.engine.Stop()
	p.unshare()
	return err
}

// Leave is Close before the job's end: the others take the process for dead, as soon as they are told. Its tasks
// get no further, and hear nothing.
func (p *Process) Leave() error {
	p.engine.Lock()
	if p.ended == nil {
		p.ended = errOver
	}
	p.engine.Unlock()
	return p.Close()
}

// someDown reports whether there is a peer that cannot be reached.
func (p *Process) someDown() bool {
	p.mesh.linksDown = p.mesh.linksDown && slices.ContainsFunc(p.mesh.peers, func(q *peer) bool { return q.way.down != 0 && !q.dead && !q.left })
	return p.mesh.linksDown
}

// networked reports whether there are processes elsewhere.
func (p *Process) networked() bool { return p.mesh.sockets != nil }

// traffic is how many bytes were read and written.
func (m *mesh) traffic() uint64 { return m.moved }
