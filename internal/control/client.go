package control

import (
	"bufio"
	"bytes"
	"cmp"
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
	"github.com/coppice-go/coppice/protocol/ending"
)

// Handler is notified of what happens in the job. One goroutine calls its methods,
// in order, perhaps before Join returns and never after Close has
// returned. They must not block or call Close.
type Handler interface {
	Peers(peers []Peer)                                            // newly known processes
	Died(d Death)                                                  // called once; after a suspicion perhaps again when the death is certain
	Alive(rank int)                                                // a suspected process is alive, as far as the coordinator knows
	HeardOf(rank int, hears bool, silent time.Duration)            // the answer to Hears
	PeersReturned(ranks []int, incarnation uint64, failure string) // their tasks have returned; failure "": without an error
	AllKnow()                                                      // every task has returned, and all processes know it
	Finished(view uint64, why string)                              // every task has returned, in that view or before; why: tasks are not done, and no process can do them
	Stop(reason string)                                            // the coordinator asks for a graceful end
	Lost(err error)                                                // the coordinator is gone: the job ends. Not called after Finished
}

// Welcome is what a process learns when it joins.
type Welcome struct {
	Place       Place           // complete: with the job's id and key
	Size        int             // number of processes of the job
	incarnation uint64          // of this process
	LocalSize   int             // number of processes on the coordinator's host
	Silence     time.Duration   // after which a process is fenced
	Settings    json.RawMessage // the launcher's
	Grow        int             // how many processes may join beyond Size while the job runs
	Joins       bool            // this process is one of them, or has come back

	Coordinator Identity // the process that has the coordinator; zero: the coordinator is not part of the job
}

// joinTimeout is how long a process waits for the coordinator, and the coordinator for a process.
const joinTimeout = 60 * time.Second

// joinTimeoutMax is the longest that a user may set: some waits are twice as long.
const joinTimeoutMax = 1000 * time.Hour

// leaveMax is how long a process that lost its coordinator tries to be the last
// to leave the directory.
const leaveMax = 100 * time.Millisecond

// clientRoom bounds the messages that wait to be sent, in bytes; beyond it, events are dropped.
const clientRoom = 8 << 20

// Client is a process's connection to the coordinator. It survives broken
// connections as long as the coordinator lives.
type Client struct {
	place    Place
	handler  Handler
	log      *slog.Logger
	id       wire.Identity
	silence  time.Duration
	welcome  Welcome
	server   atomic.Pointer[Server] // the coordinator, if it is part of this process
	became   bool                   // whether the client started the server, and closes it; owned by the reading goroutine
	ownSeed  int                    // the index of the seed on this host; −1: there is none, or it is not known yet
	searched time.Time              // when it was last looked for; owned by Join
	shut     error                  // why the client cannot listen there; owned by Join
	judge    seedJudge              // owned by Join
	unnamed  sync.Once              // the user was told of names that do not resolve
	taken    string                 // the address of a job in which another process has the rank; owned by Join
	begun    time.Time              // when a seed last said that a job has begun; owned by Join
	doorway  sync.Mutex             // guards door, and is held while it is decided which process gathers on this host
	door     net.Listener           // the listener at that seed; nil: this process does not listen there
	meet     Rendezvous             // nil: there is none; set before anything is connected
	drawn    bool                   // whether the rank was drawn; owned by Join
	crossed  time.Time              // since when another process has the rank in the job; zero: none has; owned by Join
	broken   int                    // how many connections broke because the coordinator said nothing, up to brokenMax; owned by the reading goroutine
	host     *process               // the process that has the coordinator, if it is on this host; owned by the reading goroutine
	users    *lease
	page     *detect.Page  // in which this process beats; nil: there is none
	paged    chan struct{} // of capacity one: the coordinator sees the beats in the page
	gone     chan struct{} // of capacity one: the directory was removed
	record   *Record
	kept     func() error // the caller's part of keepDir
	keeping  error        // its last result; owned by the writing goroutine
	out      *mailbox[[]byte]
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	once     sync.Once

	mu       sync.Mutex
	conn     net.Conn
	announce []byte         // sent again on every connection
	view     []byte         // the latest view that the client has reported
	viewed   uint64         // its number
	standing []byte         // the latest message of Returned and Resumed
	load     []byte         // the latest message of Load
	resumed  uint64         // the latest view in which the process resumed
	end      ending.Process // what this process knows of the job's end
	closing  bool
	mesh     *Mesh    // nil: there is none yet
	holder   Identity // the process that has the coordinator
	known    []Peer   // what the door tells
	hostID   string   // as announced

	heard       heard    // owned by the reading goroutine, as are the next four
	coordinator Identity // the process that has the coordinator; zero: the coordinator is not part of the job
	looks       int      // how often the client has looked for it elsewhere
	local       bool     // the coordinator is on this host
	lost        bool     // also Close's, when the reading goroutine has ended
}

// link is one connection to the coordinator.
type link struct {
	conn  net.Conn
	lines *bufio.Scanner
	local bool          // whether the coordinator is on this host: then the kernel reports its death
	wait  time.Duration // how long the coordinator may say nothing; 0: as long as it likes
}

func newLink(conn net.Conn, local bool) *link {
	l := &link{conn: conn, local: local}
	l.lines = newLines(l, tellMax)
	return l
}

// Read implements io.Reader. Where the machine is busy, the time may be up before this process could read what has arrived: it
// looks once more.
func (l *link) Read(b []byte) (int, error) {
	if l.wait == 0 {
		return l.conn.Read(b)
	}
	l.conn.SetReadDeadline(time.Now().Add(l.wait))
	n, err := l.conn.Read(b)
	if n == 0 && timedOut(err) {
		l.conn.SetReadDeadline(time.Now().Add(l.wait / 4))
		n, err = l.conn.Read(b)
	}
	return n, err
}

// Join connects a process to its coordinator. If a scheduler started the
// processes, Join waits until the coordinator listens.
func Join(ctx context.Context, p Place, h Handler, logger *slog.Logger) (*Client, Welcome, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		place: p, handler: h, log: logger, out: newMailbox[[]byte](clientRoom), paged: make(chan struct{}, 1), gone: make(chan struct{}, 1),
		id: wire.Identity{Job: p.Job, From: uint32(p.Rank), To: coordinatorID, Incarnation: p.Incarnation, Life: drawNumber()},
	}
	if p.How != RunHow && p.LocalRank == 0 { // no launcher has swept (MakeDir)
		sweep(filepath.Dir(p.Dir))
	}
	var err error
	if c.users, err = lock(p.Dir, usersName, posix.LOCK_SH); err != nil {
		return nil, Welcome{}, fmt.Errorf("join: %w", err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.ownSeed = -1
	if err := c.register(ctx); err != nil {
		c.giveUp()
		return nil, Welcome{}, fmt.Errorf("join: %w", err)
	}
	l, w, err := c.join(ctx)
	if err != nil {
		c.giveUp()
		return nil, Welcome{}, fmt.Errorf("join as rank %d: %w", c.place.Rank, err)
	}
	if c.record, err = OpenRecord(p.Dir, w.Place.Rank, w.Place.Incarnation); err != nil {
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

// giveUp releases what Join has begun.
func (c *Client) giveUp() {
	c.cancel()
	c.wg.Wait()
	c.unregister()
	if c.became && c.server.Load() != nil {
		c.server.Load().Close()
	}
	c.users.leave(0)
}

// join tries to connect until the coordinator answers.
func (c *Client) join(caller context.Context) (*link, Welcome, error) {
	began, parent := time.Now(), os.Getppid()
	most := cmp.Or(2*c.place.JoinTimeout, joinTimeout) // twice: until there is a coordinator, and until others have come to it
	ctx, cancel := context.WithTimeout(caller, most)
	defer cancel()
	cancelled := func() bool { return errors.Is(caller.Err(), context.Canceled) }
	var told error                         // the latest of the errors that say most
	try, hoped := handshakeMax, time.Now() // hoped: when a seed was last usable
	longest := 50 * time.Millisecond
	if c.place.seeded() { // every try makes a DNS lookup for each seed
		longest = gatherEvery
	}
	for wait := time.Millisecond; ; wait = min(wait*3/2, longest) {
		c.findDoor(ctx)
		l, w, err := c.connect(ctx, try)
		if err == nil {
			c.stopGathering()
			return l, w, nil
		}
		if told == nil || weight(err) >= weight(told) {
			told = err
		}
		if timedOut(err) {
			try *= 2
		}
		var seeds *seedsError
		if !errors.As(err, &seeds) || !seeds.hopeless {
			hoped = time.Now()
		}
		c.tellUnnamed(unnamed(err, c.place.Coordinator), began, most)
		if e := c.redraw(ctx, err); e != nil && !cancelled() {
			return nil, w, e
		}
		switch {
		case cancelled(): // whatever error the connection returned
			return nil, w, context.Cause(caller)
		case final(err) || errors.Is(err, errTooFew):
			return nil, w, fmt.Errorf("coordinator at %s: %w", c.place.Coordinator, err)
		case c.place.How == RunHow && !transient(err):
			return nil, w, fmt.Errorf("no coordinator at %s: %w", c.place.Coordinator, err)
		case (c.place.How == MpirunHow || c.place.How == SrunHow) && os.Getppid() != parent:
			return nil, w, fmt.Errorf("no coordinator at %s: %s is gone", c.place.Coordinator, c.place.How)
		case time.Since(hoped) > seedPatience:
			return nil, w, c.notFound(seedPatience, err)
		case c.place.seeded():
			c.gather(began)
		}
		if !pause(ctx, wait) && !cancelled() {
			return nil, w, c.notFound(time.Since(began).Round(time.Millisecond), told)
		}
	}
}

// transient reports whether an error of a connection to an existing coordinator
// may pass: the coordinator was busy, or another process is about to die.
func transient(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, wire.Crossed) || errors.Is(err, wire.Closing) ||
		timedOut(err)
}

// weight is how much an error of a connection says: least that the time was up, then that no process listens or that the connection broke, which
// may be so because the job is over by now, and most what a coordinator has answered.
func weight(err error) int {
	var dialed *net.OpError
	var refused wire.Refusal
	switch {
	case errors.As(err, &refused), errors.Is(err, wire.ErrStranger), errors.Is(err, wire.ErrUnanswered): // whatever the other seeds said
		return 2
	case timedOut(err):
		return 0
	case errors.As(err, &dialed) && dialed.Op == "dial", errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return 1
	}
	return 2
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// connect tries once, first on this host. On this host the try lasts as long as ctx: the kernel
// reports a dead coordinator, and hundreds of processes that give up and try again would keep
// the coordinator of a slow machine busy. Over a network, TCP may take long to resend what was
// lost, so the coordinator's kernel has to answer within try. The handshake has more time, because a second
// handshake gives a busy coordinator twice the work.
func (c *Client) connect(ctx context.Context, try time.Duration) (*link, Welcome, error) {
	key := c.place.Key
	if key == nil { // the coordinator creates a new key for every job
		if err := checkDir(c.place.Dir); err != nil {
			return nil, Welcome{}, err
		}
		var err error
		if key, err = readKey(c.place.Dir); err != nil {
			return nil, Welcome{}, err
		}
	}
	local := controlPath(c.place.Dir)
	l, w, err := c.connectTo(ctx, local, key, limits{})
	switch {
	case err == nil || c.place.Coordinator == local || final(err) || errors.Is(err, errTooFew):
	case c.place.seeded():
		found, w, e := c.connectSeeds(ctx, key)
		if e != nil && errors.Is(err, wire.Crossed) { // by the coordinator of this host
			e = fmt.Errorf("%w; %w", err, e)
		}
		return found, w, e
	default:
		ctx, done := context.WithTimeout(ctx, try+max(try, handshakeMax))
		defer done()
		l, w, err = c.connectTo(ctx, c.place.Coordinator, key, limits{reach: try, here: local})
	}
	return l, w, err
}

// limits bound parts of a connection. 0: there is no limit but that of the context.
type limits struct {
	reach time.Duration // until the coordinator's kernel answers
	shake time.Duration // until the end of the handshake
	here  string        // where it is connected to instead if somebody listens there by then; "": nowhere
}

// connectTo connects to a coordinator at an address.
func (c *Client) connectTo(ctx context.Context, address string, key []byte, most limits) (*link, Welcome, error) {
	me := c.id
	if c.sized() {
		me.Received = uint64(c.place.Size)
	}
	conn, peer, err := shake(ctx, address, key, me, most)
	switch {
	case errors.Is(err, wire.OtherSize):
		err = c.otherSize(int(peer.Received), address)
	case errors.Is(err, wire.Crossed):
		c.taken = c.seedAt(address)
	}
	if err != nil {
		return nil, Welcome{}, err
	}
	host, err := takeProcess(conn)
	if err != nil {
		conn.Close()
		return nil, Welcome{}, err
	}
	_, local := conn.(*net.UnixConn)
	l := newLink(conn, local)
	w, err := c.began(ctx, l, host, peer.Job, peer.Incarnation, key)
	return l, w, err
}

// began begins the conversation with a coordinator after the handshake.
func (c *Client) began(ctx context.Context, l *link, host *process, job [16]byte, instance uint64, key []byte) (Welcome, error) {
	w, err := c.welcomed(ctx, l)
	if other, ok := err.(*elsewhere); ok {
		other.job = job
	}
	if err == nil && c.sized() && c.place.Size != w.Size {
		err = c.otherSize(w.Size, c.place.Coordinator)
	}
	if err == nil && c.id.Link != 0 && c.id.Link != instance {
		if (w.Coordinator == Identity{}) {
			err = wire.OtherJob
		} else { // a successor of the previous coordinator does not know how often processes have resumed
			clear(c.heard.returned)
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
func shake(ctx context.Context, address string, key []byte, me wire.Identity, most limits) (net.Conn, wire.Identity, error) {
	if most.shake > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, most.shake)
		defer done()
	}
	raw, err := dial(ctx, address, most.reach)
	if err != nil {
		return nil, wire.Identity{}, err
	}
	if most.here != "" { // a coordinator of this host may have begun since: first it listens here, then there
		if here, err := dial(ctx, most.here, 0); err == nil {
			raw.Close()
			raw = here
		}
	}
	deadline, _ := ctx.Deadline()
	raw.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	conn, binding, err := secure(raw, wire.Client)
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
	for m.Type == "" || m.Type == tellBeat || m.Type == tellDied { // the coordinator waits for other processes, and repeats everything in the welcome
		deadline, _ := ctx.Deadline()
		if soon := time.Now().Add(handshakeMax); c.place.seeded() && !l.local && soon.Before(deadline) {
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
		Grow: m.Grow, Joins: m.Joins, Coordinator: m.Coordinator,
	}, nil
}

// Close leaves the job. Before Finished that is a failure: the others learn
// that this process is dead, and what it has recorded, which must be complete.
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
	c.unregister()
	if s := c.server.Load(); s != nil { // or this process would not be the last to leave the directory
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

// Page returns the page in which the processes of this host beat; nil: there is none. A caller that uses it must beat
// there from before Announce until Close: the client sends no beats to a coordinator that sees
// the page.
func (c *Client) Page() *detect.Page { return c.page }

// Record replaces what was recorded before with b (Record.Write).
func (c *Client) Record(b []byte) error { return c.record.Write(b) }

// bye says that this process leaves. A coordinator on the same host reads the
// record itself. On another host, a large record is left to the agent there, which sees
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
			if view := c.Sure(); view > 0 && !c.isClosing() { // the missing processes have left
				c.handler.Finished(view, "")
				return
			}
			if !c.isClosing() {
				c.lost = true
				c.handler.Lost(err)
				c.log.Warn("control: coordinator lost", "error", err) // may end the process: the reader of its output is gone, too
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
		// On this host the kernel reports the coordinator's death, and the coordinator may be stopped
		// for as long as its user likes. On another host the coordinator answers beats. If it does not
		// for a while, a new connection may work better: TCP resends what was lost on this
		// one ever more rarely. Or the coordinator is busy: then it has twice the time from now on.
		if !l.local {
			l.wait = c.silence / 2 << c.broken
			if c.isClosing() {
				l.wait = farewellMax
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
	if timedOut(l.lines.Err()) {
		c.broken = min(c.broken+1, brokenMax)
	}
	l.conn.Close()
	close(ended)
	writer.Wait()
	return err
}

// write sends what is queued on a connection, and beats.
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
			c.out.signal() // wake the writer of the next connection
			return
		case <-beat.C:
			lines = [][]byte{alive}
			c.keepDir()
		case <-c.paged:
			if local {
				beat.Stop()
			}
			c.keepDir()
		case <-c.gone:
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

// brokenMax bounds the time for which a coordinator may say nothing: to four silences.
const brokenMax = 3

// lostMin is the least time for which a process looks for a coordinator on another host.
const lostMin = 20 * time.Second

// reconnect finds the coordinator again, if it is alive. Its network may be cut off for a
// while. Each try is short at first, since TCP takes long to resend what is lost.
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
		// On this host no coordinator listens at its address, or that of another job does: it
		// is dead. A missing directory is about to be created again.
		gone := errors.Is(err, syscall.ECONNREFUSED)
		if final(err) || gone || c.replaced() || errors.Is(err, wire.Closing) || ctx.Err() != nil {
			return nil, fmt.Errorf("coordinator at %s: %w", c.place.Coordinator, err)
		}
		pause(ctx, wait)
	}
}

// replaced reports whether the next run of the job, with its own key, has
// taken the directory.
func (c *Client) replaced() bool {
	key, err := readKey(c.place.Dir)
	return err == nil && !bytes.Equal(key, c.place.Key)
}

// resume begins a later connection with what the coordinator must know.
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
	if c.end.Over() > 0 {
		c.sayOver()
	}
	return nil
}
