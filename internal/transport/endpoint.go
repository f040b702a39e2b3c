package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/segment"
	"github.com/coppice-go/coppice/internal/wire"
)

// Config is what an endpoint needs to know. Callbacks come from goroutines of
// the endpoint, several at once, and must not wait for its Close.
type Config struct {
	// Key is the job's secret, 16 bytes or more.
	Key []byte
	// Self is this process: Job, From and Incarnation count.
	Self wire.Identity
	// Decide is asked about a peer that has proven the key, is of our job and
	// means us. It answers with View, Link and Received, or refuses; the rest
	// of what the peer is told is filled in.
	Decide func(peer wire.Identity) (me wire.Identity, verdict wire.Refusal)
	// Established is given the connection that Decide accepted.
	Established func(*Conn)
	// Abandoned, if not nil, is told instead that Decide accepted a
	// connection, but it broke before it was established.
	Abandoned func(peer wire.Identity)
	// Visit is asked about a peer that means the coordinator, and not this process; it answers
	// with Link, or refuses. nil: the coordinator is not here.
	Visit func(peer wire.Identity) (me wire.Identity, verdict wire.Refusal)
	// Visited is given the connection that Visit accepted. It does not wait for anything.
	Visited func(conn net.Conn, peer wire.Identity)
	// Inbox is where peers on this host mark that they have written to memory that both share;
	// nil: all bytes go through sockets.
	Inbox *segment.Inbox
	// Ring is the size of that memory for each direction; 0: segment.RingMax.
	Ring int
	// Logger; nil: none.
	Logger *slog.Logger
	// HandshakeTime bounds a handshake; 0: 5 s.
	HandshakeTime time.Duration
	// StallTime is how long what was sent over TCP may go without an acknowledgement by the
	// peer's kernel before the connection breaks; 0: as long as the system allows. A
	// network that was cut for a while is then used again as soon as it heals, whereas
	// what was lost on an old connection is sent again ever more rarely.
	StallTime time.Duration
	// GuestsMax bounds the connections of those who have not knocked (the
	// oldest is shown out) and the handshakes in progress of those who have
	// (more of them wait); 0: 256.
	GuestsMax int
}

// withDefaults returns cfg with what was left out, or what is wrong with it.
func (cfg Config) withDefaults() (Config, error) {
	if len(cfg.Key) < 16 {
		return cfg, fmt.Errorf("key of %d bytes; allowed: 16 or more", len(cfg.Key))
	}
	if cfg.Decide == nil || cfg.Established == nil {
		return cfg, errors.New("an endpoint needs Decide and Established")
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.HandshakeTime = cmp.Or(max(cfg.HandshakeTime, 0), 5*time.Second)
	cfg.Ring = cmp.Or(cfg.Ring, segment.RingMax)
	cfg.GuestsMax = cmp.Or(max(cfg.GuestsMax, 0), 256)
	return cfg, nil
}

// Endpoint is where a process listens, and from where it connects.
type Endpoint struct {
	cfg       Config
	listeners []listener
	guests    guests
	unheard   chan struct{} // one for each goroutine that waits for a knock
	slots     chan struct{} // one for each handshake after it
	strange   complaint
	jammed    complaint
	unshared  sync.Map // the ranks to which memory is not offered any more, and
	unread    sync.Map // those whose memory is not read any more: it was in vain

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	mu     sync.Mutex // for closed together with running.Add
	closed bool
	// running counts goroutines and Dials.
	running sync.WaitGroup
}

// listener is a socket on which an endpoint listens.
type listener struct {
	net.Listener
	kind  string
	tells []Address
	path  string      // of Unix
	file  fs.FileInfo // at it
}

// there reports whether the socket of a listener on this host still has its name.
func (l listener) there() bool {
	now, err := os.Lstat(l.path)
	return err == nil && os.SameFile(l.file, now)
}

// close ends the listening; nothing stays at the path.
func (l listener) close() error {
	err := l.Close()
	if l.kind == Unix && l.there() {
		_ = os.Remove(l.path)
	}
	return err
}

// Listen starts an endpoint that listens at the places, of which there may be
// none: it then only connects.
func Listen(cfg Config, at ...Place) (*Endpoint, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Endpoint{cfg: cfg, guests: guests{key: cfg.Key, job: cfg.Self.Job, max: cfg.GuestsMax}, unheard: make(chan struct{}, 2*cfg.GuestsMax), slots: make(chan struct{}, cfg.GuestsMax)}
	e.strange = complaint{log: cfg.Logger, what: "turned strangers away"}
	e.jammed = complaint{log: cfg.Logger, what: "cannot accept connections just now"}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	for _, p := range at {
		l, err := listen(p)
		if err != nil {
			_ = e.Close()
			return nil, fmt.Errorf("listen at %v: %w", p, err)
		}
		e.listeners = append(e.listeners, l)
	}
	for _, l := range e.listeners {
		e.running.Go(func() { e.accept(l) })
	}
	return e, nil
}

// Addresses is what to tell the peers, the best of each kind first.
func (e *Endpoint) Addresses() (all []Address) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.listeners {
		all = append(all, l.tells...)
	}
	return all
}

// Close ends the listening and all handshakes in progress, and waits for them:
// until it returns, Established may still be called. Connections that are
// established stay.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	again := e.closed
	e.closed = true
	e.mu.Unlock()
	if again {
		return net.ErrClosed
	}
	e.cancel()
	var errs []error
	for _, l := range e.listeners {
		errs = append(errs, l.close())
	}
	e.guests.close()
	e.running.Wait()
	e.strange.rest()
	e.jammed.rest()
	return errors.Join(errs...)
}

// Keep listens again at the paths of Unix sockets that somebody has removed.
func (e *Endpoint) Keep() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, l := range e.listeners {
		if e.closed || l.kind != Unix || l.there() {
			continue
		}
		again, err := listenUnix(l.path)
		if err != nil {
			return fmt.Errorf("listen again at %s: %w", l.path, err)
		}
		_ = l.Close()
		e.listeners[i] = again
		e.running.Go(func() { e.accept(again) })
	}
	return nil
}

// begin counts something that Close has to wait for; false: it is too late.
func (e *Endpoint) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.running.Add(1)
	}
	return !e.closed
}

// Pauses after an accept that failed, for want of descriptors for example.
const (
	pauseMin = 5 * time.Millisecond
	pauseMax = time.Second
)

func (e *Endpoint) accept(l listener) {
	pause := pauseMin
	for {
		conn, err := l.Accept()
		if err == nil {
			pause = pauseMin
			e.welcome(l.kind, conn)
			continue
		}
		if e.ctx.Err() != nil || errors.Is(err, net.ErrClosed) { // the endpoint is closed, or listens again
			return
		}
		e.jammed.about(err)
		e.guests.clear()
		if !sleep(e.ctx, pause) {
			return
		}
		pause = min(2*pause, pauseMax)
	}
}

// welcome starts the handshake of a connection. Goroutines of those who were
// shown out take a moment to end, for which it waits when there are many.
func (e *Endpoint) welcome(kind string, conn net.Conn) {
	e.unheard <- struct{}{}
	if !e.begin() {
		discard(conn)
		return
	}
	e.guests.thin()
	g := e.guests.admit(conn)
	go func() {
		defer e.running.Done()
		heard := e.hear(g)
		<-e.unheard
		if heard {
			e.receive(kind, g)
			e.guests.leave(g)
		}
	}()
}

// hear waits for the knock of whoever connected, to whom nothing is said before;
// false: there was none, and the guest is gone.
func (e *Endpoint) hear(g *guest) bool {
	_ = g.conn.SetDeadline(time.Now().Add(e.cfg.HandshakeTime))
	err := e.guests.knock(g)
	if err == nil {
		return true
	}
	discard(g.conn)
	if !errors.Is(err, errNoKnock) { // perhaps a peer that ended; who says nothing learns nothing
		e.strange.about(err)
	}
	e.guests.leave(g)
	return false
}

// receive makes the handshake with someone who has knocked, when it is their turn.
func (e *Endpoint) receive(kind string, g *guest) {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-e.ctx.Done():
		discard(g.conn)
		return
	}
	_ = g.conn.SetDeadline(time.Now().Add(e.cfg.HandshakeTime))
	e.answer(kind, g)
}

// answer makes the handshake with someone who has knocked.
func (e *Endpoint) answer(kind string, g *guest) {
	accepted := false
	c, err := e.shake(kind, g.conn, g.conn, false, func(rw io.ReadWriter, binding []byte) (me, peer wire.Identity, err error) {
		peer, err = wire.Accept(rw, e.cfg.Key, binding, func(peer wire.Identity) (wire.Identity, wire.Refusal) {
			var verdict wire.Refusal
			me, verdict = e.decide(peer)
			accepted = verdict == wire.Accepted
			return me, verdict
		})
		return me, peer, err
	})
	switch {
	case err == nil && c.stream != nil:
		e.cfg.Visited(c.stream, c.peer)
	case err == nil && e.ctx.Err() == nil:
		e.cfg.Established(c)
	case err == nil:
		_ = c.Close()
		e.abandon(c.Peer())
	default:
		_ = g.conn.Close()
		e.failed(err, c, accepted)
	}
}

// failed says what has to be said of a handshake that came to nothing.
func (e *Endpoint) failed(err error, c *Conn, accepted bool) {
	var refusal wire.Refusal
	switch {
	case accepted && c.peer.To != wire.Coordinator:
		e.cfg.Logger.Info("connection broke in the handshake", "from", c.peer.From, "incarnation", c.peer.Incarnation, "error", err)
		e.abandon(c.peer)
	case errors.As(err, &refusal):
		e.cfg.Logger.Debug("connection refused", "from", c.peer.From, "incarnation", c.peer.Incarnation, "reason", refusal)
	case errors.Is(err, wire.ErrStranger), errors.Is(err, wire.ErrVersion):
		e.strange.about(err)
	default: // it knocked, and hung up
		e.cfg.Logger.Debug("connection broke in the handshake", "error", err)
	}
}

func (e *Endpoint) abandon(peer wire.Identity) {
	if e.cfg.Abandoned != nil {
		e.cfg.Abandoned(peer)
	}
}

// decide answers a peer that has proven the key.
func (e *Endpoint) decide(peer wire.Identity) (me wire.Identity, verdict wire.Refusal) {
	switch {
	case e.ctx.Err() != nil:
		verdict = wire.Closing
	case peer.Job != e.cfg.Self.Job:
		verdict = wire.OtherJob
	case peer.To == wire.Coordinator && e.cfg.Visit != nil:
		me, verdict = e.cfg.Visit(peer)
	case peer.To != e.cfg.Self.From:
		verdict = wire.NotMe
	default:
		me, verdict = e.cfg.Decide(peer)
	}
	return e.signed(me, peer.From), verdict
}

// signed fills in who we are and to whom we speak.
func (e *Endpoint) signed(me wire.Identity, to uint32) wire.Identity {
	me.Job, me.From, me.Incarnation = e.cfg.Self.Job, e.cfg.Self.From, e.cfg.Self.Incarnation
	me.To = to
	return me
}
