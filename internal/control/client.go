package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/wire"
)

// Handler is told what happens in the job. Its methods are called by one
// goroutine, in order, perhaps before Join returns and never after Close has
// returned. They do not block, and they do not call Close.
type Handler interface {
	Peers(peers []Peer)                                            // newly known
	Died(d Death)                                                  // once; if it was a suspicion, perhaps once more when it is certain
	Alive(rank int)                                                // a process that was suspected is, for all the coordinator knows
	HeardOf(rank int, hears bool, silent time.Duration)            // the answer to Hears
	PeersReturned(ranks []int, incarnation uint64, failure string) // their tasks have; failure "": well
	Finished(view uint64, why string)                              // every task has returned, in that view or before; why: tasks are not done, and nobody can do them
	Stop(reason string)                                            // a graceful end is asked for
	Lost(err error)                                                // the coordinator is gone: the job ends. Not called after Finished
}

// Welcome is what a process learns when it joins.
type Welcome struct {
	Place       Place           // complete: with the job's id and key
	Size        int             // of the job
	incarnation uint64          // of this process
	LocalSize   int             // of it on the coordinator's host
	Silence     time.Duration   // after which a process is fenced
	Settings    json.RawMessage // the launcher's
	Grow        int             // so many may join beyond Size while the job runs
	Joins       bool            // this process is one of them, or has come back
	Live        []Peer          // then: who is there to be asked. The handler is told of them as well
	Before      []Death         // then: the ends of its own earlier incarnations, of which the handler is not told

	Coordinator Identity // the process that has the coordinator; zero: it is none of the job's
}

// joinTimeout is how long a process waits for the coordinator, and that for a process.
const joinTimeout = 60 * time.Second

// leaveMax is how long a process that lost its coordinator tries to be the last
// to leave the directory.
const leaveMax = 100 * time.Millisecond

// clientRoom bounds in bytes what waits to be said; events are dropped beyond.
const clientRoom = 8 << 20

// Client is a process's connection with the coordinator. It survives broken
// connections as long as the coordinator does.
type Client struct {
	place    Place
	handler  Handler
	log      *slog.Logger
	id       wire.Identity
	silence  time.Duration
	welcome  Welcome
	server   atomic.Pointer[Server] // the coordinator, if it is part of this process
	became   bool                   // the client has begun it, and ends it; the reading goroutine's
	ownSeed  int                    // the number of the seed on this host; −1: none is, or that is not known yet
	searched time.Time              // when it was looked for; Join's
	shut     error                  // why it cannot listen there; the same
	judge    seedJudge              // the same
	doorway  sync.Mutex             // for door, and held while it is decided who gathers on this host
	door     net.Listener           // at that seed; nil: this process does not listen there
	host     *process               // that has the coordinator, if it is on this host; the reading goroutine's
	users    *lease
	page     *detect.Page  // in which this process beats; nil: there is none
	quiet    chan struct{} // with room for one: the coordinator sees it there, or has lost the directory
	record   *Record
	kept     func() error // the caller's part of keepDir
	keeping  error        // what came of that last; the writing goroutine's
	out      *mailbox[[]byte]
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	once     sync.Once

	mu       sync.Mutex
	conn     net.Conn
	announce []byte // said again on every connection
	view     []byte // the latest that it has told of
	viewed   uint64 // its number
	standing []byte // the latest of Returned and Resumed
	load     []byte // the latest of Load
	resumed  uint64 // the latest view in which it has
	over     uint64 // the view in which the job was over; 0: it is not, as far as this process knows
	closing  bool
	mesh     *Mesh    // nil: there is none yet
	holder   Identity // the process that has the coordinator
	known    []Peer   // what the door tells
	hostID   string   // as announced

	heard       heard    // the reading goroutine's
	coordinator Identity // the same: the process that has it; zero: it is none of the job's
	looks       int      // the same: how often it was looked for elsewhere
	local       bool     // the same: it is on this host
	lost        bool     // the same, and Close's when that has ended
}

// link is one connection with the coordinator.
type link struct {
	conn  net.Conn
	lines *bufio.Scanner
	local bool // with a coordinator on this host: the kernel tells when it is dead
}

// Join connects a process with its coordinator. Where a scheduler started the
// processes, it waits until the coordinator is there.
func Join(ctx context.Context, p Place, h Handler, logger *slog.Logger) (*Client, Welcome, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		place: p, handler: h, log: logger, out: newMailbox[[]byte](clientRoom), quiet: make(chan struct{}, 1),
		id: wire.Identity{Job: p.Job, From: uint32(p.Rank), To: coordinatorID, Incarnation: p.Incarnation, Life: drawNumber()},
	}
	if p.How != RunHow && p.LocalRank == 0 { // no launcher has done it (MakeDir)
		sweep(filepath.Dir(p.Dir))
	}
	var err error
	if c.users, err = lock(p.Dir, usersName, posix.LOCK_SH); err != nil {
		return nil, Welcome{}, fmt.Errorf("join: %w", err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.ownSeed = -1
	l, w, err := c.join(ctx)
	if err != nil {
		c.giveUp()
		return nil, Welcome{}, fmt.Errorf("join as rank %d: %w", p.Rank, err)
	}
	if c.record, err = OpenRecord(p.Dir, p.Rank, w.Place.Incarnation); err != nil {
		l.conn.Close()
		c.host.close()
		c.giveUp()
		return nil, Welcome{}, err
	}
	c.silence, c.welcome = w.Silence, w
	if c.page, err = detect.OpenPage(p.Dir, w.Size+w.Grow); err != nil {
		logger.Warn("control: no page of beats", "error", err)
	}
	c.heard.reach(w.Size - 1)
	c.conn = l.conn
	c.wg.Go(func() { c.run(l) })
	if (w.Coordinator != Identity{}) {
		c.wg.Go(c.leaveRemoved)
	}
	return c, w, nil
}

// giveUp ends what Join has begun.
func (c *Client) giveUp() {
	c.cancel()
	c.wg.Wait()
	if c.became && c.server.Load() != nil {
		c.server.Load().Close()
	}
	c.users.leave(0)
}

// join tries to connect until the coordinator is there.
func (c *Client) join(caller context.Context) (*link, Welcome, error) {
	began, parent := time.Now(), os.Getppid()
	ctx, cancel := context.WithTimeout(caller, max(joinTimeout, 2*c.place.JoinTimeout))
	defer cancel()
	cancelled := func() bool { return errors.Is(caller.Err(), context.Canceled) }
	var told error                         // the latest that says more than that the time was up
	try, hoped := handshakeMax, time.Now() // hoped: that a seed may be of use
	pause := 50 * time.Millisecond
	if c.place.Seeds != nil { // every try asks a server of names for each of them
		pause = gatherEvery
	}
	for wait := time.Millisecond; ; wait = min(wait*3/2, pause) {
		c.findDoor(ctx)
		l, w, err := c.connect(ctx, try)
		if err == nil {
			c.stopGathering()
			return l, w, nil
		}
		if told == nil || !timedOut(err) {
			told = err
		}
		if timedOut(err) {
			try *= 2
		}
		var seeds *seedsError
		if !errors.As(err, &seeds) || !seeds.hopeless {
			hoped = time.Now()
		}
		switch {
		case cancelled(): // whatever the connection made of it
			return nil, w, context.Cause(caller)
		case final(err) || errors.Is(err, errTooFew):
			return nil, w, fmt.Errorf("coordinator at %s: %w", c.place.Coordinator, err)
		case c.place.How == RunHow && !transient(err):
			return nil, w, fmt.Errorf("no coordinator at %s: %w", c.place.Coordinator, err)
		case (c.place.How == MpirunHow || c.place.How == SrunHow) && os.Getppid() != parent:
			return nil, w, fmt.Errorf("no coordinator at %s: %s is gone", c.place.Coordinator, c.place.How)
		case time.Since(hoped) > seedPatience:
			return nil, w, fmt.Errorf("no coordinator at %s within %v: %w", c.place.Coordinator, seedPatience, err)
		case c.place.Seeds != nil:
			c.gather(began)
		}
		select {
		case <-ctx.Done():
			if !cancelled() {
				return nil, w, fmt.Errorf("no coordinator at %s within %v: %w", c.place.Coordinator, time.Since(began).Round(time.Millisecond), told)
			}
		case <-time.After(wait):
		}
	}
}

// transient tells whether an error of a connection with a coordinator that
// exists may pass: it had too much to do, or another process is about to die.
func transient(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, wire.Crossed) || errors.Is(err, wire.Closing) ||
		timedOut(err)
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// connect tries once, on this host first. On this host the try lasts as long as ctx: the kernel
// reports a dead coordinator, and hundreds of processes that break off and try again would keep
// the coordinator of a slow machine busy. Over a network TCP may take long to resend what was
// lost, so a try has its own limit.
func (c *Client) connect(ctx context.Context, try time.Duration) (*link, Welcome, error) {
	key := c.place.Key
	if key == nil { // the coordinator makes it, anew for every job
		if err := checkDir(c.place.Dir); err != nil {
			return nil, Welcome{}, err
		}
		var err error
		if key, err = readKey(c.place.Dir); err != nil {
			return nil, Welcome{}, err
		}
	}
	local := controlPath(c.place.Dir)
	l, w, err := c.connectTo(ctx, local, key, 0)
	switch {
	case err == nil || c.place.Coordinator == local || final(err) || errors.Is(err, errTooFew):
	case c.place.Seeds != nil:
		return c.connectSeeds(ctx, key)
	default:
		ctx, done := context.WithTimeout(ctx, try)
		defer done()
		l, w, err = c.connectTo(ctx, c.place.Coordinator, key, 0)
	}
	return l, w, err
}

// connectTo connects with a coordinator at an address. The handshake has its own limit, unless try is 0.
func (c *Client) connectTo(ctx context.Context, address string, key []byte, try time.Duration) (*link, Welcome, error) {
	shaking, done := ctx, func() {}
	if try > 0 {
		shaking, done = context.WithTimeout(ctx, try)
	}
	conn, peer, err := shake(shaking, address, key, c.id)
	done()
	if err != nil {
		return nil, Welcome{}, err
	}
	host, err := takeProcess(conn)
	if err != nil {
		conn.Close()
		return nil, Welcome{}, err
	}
	l := &link{conn: conn, lines: newLines(conn, tellMax), local: filepath.IsAbs(address)}
	w, err := c.began(ctx, l, host, peer.Job, peer.Incarnation, key)
	return l, w, err
}

// began begins to talk with a coordinator, of which so much is known by now.
func (c *Client) began(ctx context.Context, l *link, host *process, job [16]byte, instance uint64, key []byte) (Welcome, error) {
	w, err := c.welcomed(ctx, l)
	if other, ok := err.(*elsewhere); ok {
		other.job = job
	}
	if err == nil && c.id.Link != 0 && c.id.Link != instance {
		if (w.Coordinator == Identity{}) {
			err = wire.OtherJob
		} else { // in the place of the one before
			c.heard.begin()
		}
	}
	if err != nil {
		l.conn.Close()
		host.close()
		return Welcome{}, err
	}
	c.host.close()
	c.host, c.coordinator, c.local = host, w.Coordinator, l.local
	c.id.Job, c.id.Link = job, instance
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place.Incarnation == 0 {
		c.place.Incarnation, c.id.Incarnation = w.incarnation, w.incarnation
	}
	c.place.Job, c.place.Key = job, key
	w.Place = c.place
	c.holder = w.Coordinator
	c.tellHolder()
	return w, nil
}

// shake opens a connection and makes the handshake, within the time that ctx leaves.
func shake(ctx context.Context, address string, key []byte, me wire.Identity) (net.Conn, wire.Identity, error) {
	raw, err := dial(ctx, address)
	if err != nil {
		return nil, wire.Identity{}, err
	}
	deadline, _ := ctx.Deadline()
	raw.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	conn, binding, err := secureOpened(raw)
	var peer wire.Identity
	if err == nil {
		peer, err = wire.Connect(conn, key, binding, me)
	}
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		raw.Close()
		return nil, peer, err
	}
	raw.SetDeadline(time.Time{})
	return conn, peer, nil
}

// welcomed reads the first line.
func (c *Client) welcomed(ctx context.Context, l *link) (Welcome, error) {
	var m message
	defer l.conn.SetReadDeadline(time.Time{})
	for m.Type == "" || m.Type == tellBeat || m.Type == tellDied { // it waits for others, and tells it all once more
		deadline, _ := ctx.Deadline()
		if soon := time.Now().Add(handshakeMax); c.place.Seeds != nil && !l.local && soon.Before(deadline) {
			deadline = soon
		}
		l.conn.SetReadDeadline(deadline)
		var err error
		if m, err = readMessage(l.lines); err != nil {
			return Welcome{}, err
		}
	}
	switch {
	case m.Type == tellClosing && m.Why != "":
		return Welcome{}, fmt.Errorf("%w: %s", errTooFew, m.Why)
	case m.Type == tellClosing:
		return Welcome{}, wire.Closing
	case m.Type == tellElsewhere:
		return Welcome{}, &elsewhere{coordinator: m.Coordinator, peers: m.Peers}
	}
	if m.Type != tellWelcome || m.Silence <= 0 || m.Size < 1 || m.Incarnation < 1 {
		return Welcome{}, fmt.Errorf("first word %q; allowed: %q", m.Type, tellWelcome)
	}
	return Welcome{
		incarnation: m.Incarnation, Size: m.Size, LocalSize: m.LocalSize, Silence: m.Silence, Settings: m.Settings,
		Grow: m.Grow, Joins: m.Joins, Live: m.Peers, Before: m.Before, Coordinator: m.Coordinator,
	}, nil
}

// Close leaves the job. Before Finished that is a failure: the others are told
// that this process is dead, and what it has recorded, which must be all.
func (c *Client) Close() {
	c.once.Do(func() {
		c.mu.Lock()
		c.bye()
		c.closing = true
		c.conn.SetDeadline(time.Now().Add(farewellMax))
		c.mu.Unlock()
		c.out.close()
		c.cancel()
	})
	c.wg.Wait()
	if s := c.server.Load(); c.became && s != nil {
		s.Close()
	}
	patience := time.Duration(0)
	if c.lost {
		patience = leaveMax
	}
	c.host.close()
	c.record.Close()
	c.users.leave(patience)
	if c.page != nil {
		_ = c.page.Close()
	}
}

// Page is where the processes of this host beat; nil: there is none. Who takes it beats
// there from before Announce until Close: to a coordinator that sees that, beats are not
// sent any more.
func (c *Client) Page() *detect.Page { return c.page }

// Record puts b in the place of what was recorded before (Record.Write).
func (c *Client) Record(b []byte) error { return c.record.Write(b) }

// bye says that this process leaves. On the coordinator's host that one reads the
// record itself; a large one on another host is left to the agent there, which sees
// the process exit. c.mu is held.
func (c *Client) bye() {
	last := message{Type: sayBye}
	if _, local := c.conn.(*net.UnixConn); !local {
		record, err := c.record.read()
		if err != nil || len(record) > sayMax/2 {
			return
		}
		last.Record = record
	}
	c.say(last.line())
}

func (c *Client) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// run serves one connection after the other.
func (c *Client) run(l *link) {
	for {
		err := c.converse(l)
		switch {
		case c.isClosing() || c.heard.finished:
			return
		case c.inside():
			l, err = c.follow()
		case err == nil: // broken, not ended
			l, err = c.reconnect()
		}
		if err != nil {
			if view := c.Over(); view > 0 && !c.isClosing() { // who is missing has left
				c.handler.Finished(view, "")
				return
			}
			if !c.isClosing() {
				c.lost = true
				c.handler.Lost(err)
				c.log.Warn("control: coordinator lost", "error", err) // may end the process: who read it is gone, too
			}
			return
		}
	}
}

// converse reads and writes on a connection until it ends. An error means that
// the coordinator does not want to be found again.
func (c *Client) converse(l *link) (err error) {
	ended := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() { c.write(l.conn, ended) })
	for err == nil {
		// On this host the kernel tells when the coordinator is dead; it may be stopped
		// for as long as its user likes. On another one it answers beats. If it does not
		// for a while, another connection may do better: what was lost on this one
		// is sent again ever more rarely.
		if !l.local {
			l.conn.SetReadDeadline(time.Now().Add(c.silence / 2))
			if c.isClosing() {
				l.conn.SetReadDeadline(time.Now().Add(farewellMax))
			}
		}
		if !l.lines.Scan() {
			break
		}
		var m message
		if e := json.Unmarshal(l.lines.Bytes(), &m); e != nil {
			c.log.Warn("control: bad message", "error", e)
			break
		}
		err = c.hear(m)
	}
	l.conn.Close()
	close(ended)
	writer.Wait()
	return err
}

// write says what is to be said on a connection, and that we are alive.
func (c *Client) write(conn net.Conn, ended <-chan struct{}) {
	beat := time.NewTicker(max(c.silence/beatsPerSilence, time.Millisecond))
	defer beat.Stop()
	alive := message{Type: sayBeat}.line()
	_, local := conn.(*net.UnixConn)
	for {
		var lines [][]byte
		last := false
		select {
		case <-ended:
			c.out.signal() // for the writer of the next connection
			return
		case <-beat.C:
			lines = [][]byte{alive}
			c.keepDir()
		case <-c.quiet:
			if local {
				beat.Stop()
			}
			c.keepDir()
		case <-c.out.filled:
			lines, last = c.out.take()
		}
		if writeLines(conn, lines) != nil {
			conn.Close()
			return
		}
		if last {
			closeWrite(conn)
			return
		}
	}
}

// lostMin is how long a process looks for a coordinator on another host, at least.
const lostMin = 20 * time.Second

// reconnect finds the coordinator again, if it is there. Its network may be cut off for a
// while; each try is short at first, since what is lost of one takes long to be sent again.
func (c *Client) reconnect() (*link, error) {
	patience, try := max(c.silence, time.Second), time.Duration(0)
	if c.place.Coordinator != controlPath(c.place.Dir) {
		patience, try = max(5*c.silence, lostMin), max(c.silence/8, 100*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(wait*2, 100*time.Millisecond) {
		l, _, err := c.connect(ctx, try)
		try = min(try+try/4, handshakeMax)
		if err == nil {
			return l, c.resume(l)
		}
		// On this host nobody listens where it did, or another job does: it
		// is dead. A directory that is missing is about to be made again.
		gone := errors.Is(err, syscall.ECONNREFUSED)
		if final(err) || gone || c.replaced() || errors.Is(err, wire.Closing) || ctx.Err() != nil {
			return nil, fmt.Errorf("coordinator at %s: %w", c.place.Coordinator, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// replaced tells whether the next run of the job, with a key of its own, has
// taken the directory.
func (c *Client) replaced() bool {
	key, err := readKey(c.place.Dir)
	return err == nil && !bytes.Equal(key, c.place.Key)
}

// resume begins a further connection with what the coordinator must know.
func (c *Client) resume(l *link) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = l.conn
	if c.closing {
		c.conn.SetDeadline(time.Now().Add(farewellMax))
	}
	for _, line := range [][]byte{c.announce, c.view, c.standing, c.load} {
		if line != nil {
			c.say(line)
		}
	}
	if c.over > 0 {
		c.say(message{Type: sayOver, View: c.over}.line())
	}
	return nil
}
