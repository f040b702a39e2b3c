package control

import (
	"encoding/json"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/protocol"
)

// session is a connection to a process or an observer.
type session struct {
	member   *member // nil: an observer
	conn     net.Conn
	raw      net.Conn // below conn: closing it never blocks
	out      *mailbox[[]byte]
	writing  sync.Mutex    // held while writing
	told     int           // how many entries of the address book were sent
	known    bool          // whether it was told that all processes know that the job is over
	heardAll chan struct{} // closed when nothing more will be read
}

func newSession(m *member, conn, raw net.Conn, room int) *session {
	return &session{member: m, conn: conn, raw: raw, out: newMailbox[[]byte](room), heardAll: make(chan struct{})}
}

// tell queues a line. A peer that does not read loses its connection: a process comes
// back and is told everything again.
func (c *session) tell(line []byte) { c.queue(line, len(line)) }

// tellDeath queues the line of a death. All sessions share it, so it hardly counts
// towards the room of this one.
func (c *session) tellDeath(line []byte) { c.queue(line, min(len(line), eventMax)) }

func (c *session) queue(line []byte, bytes int) {
	if !c.out.put(line, bytes) {
		c.raw.Close()
	}
}

// tellAtOnce writes a line itself, if nothing waits to be written, this cannot
// block and there is no encryption below: waking a writer costs time.
func (c *session) tellAtOnce(line []byte) bool {
	conn, ok := c.conn.(*net.UnixConn)
	if !ok || !c.writing.TryLock() {
		return false
	}
	defer c.writing.Unlock()
	raw, err := conn.SyscallConn()
	if err != nil || !c.out.empty() {
		return false
	}
	n := 0
	err = raw.Write(func(fd uintptr) bool {
		n, _ = posix.Write(int(fd), line) // the descriptor does not block
		return true
	})
	if err != nil || n <= 0 {
		return false
	}
	if n < len(line) {
		c.tellDeath(line[n:])
	}
	return true
}

// write writes what is queued until the mailbox or the connection is closed.
func (c *session) write() {
	for {
		select {
		case <-c.out.filled:
		case <-c.heardAll:
			c.raw.Close()
			return
		}
		if last, err := c.writeQueued(); err != nil {
			c.raw.Close()
			return
		} else if last {
			closeWrite(c.conn)
			return
		}
	}
}

func (c *session) writeQueued() (last bool, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	lines, last := c.out.take()
	return last, writeLines(c.conn, lines)
}

// closeWrite lets the peer read everything and then the end.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
		return
	}
	conn.Close()
}

// tellAll sends a message to all processes. s.mu is held.
func (s *Server) tellAll(m message) {
	line := m.line()
	for session := range s.sessions {
		session.tell(line)
	}
}

// welcome sends a process that connects everything it must know except the address
// book, which follows with the next batch. s.mu is held.
func (s *Server) welcome(c *session) {
	c.tell(message{
		Type: tellWelcome, Incarnation: c.member.incarnation, Size: s.cfg.Size, LocalSize: s.cfg.LocalSize,
		Silence: s.cfg.Silence, Settings: s.cfg.Settings,
		Grow: s.cfg.Grow, Joins: s.joins(c.member), Coordinator: s.cfg.self,
	}.line())
	for _, m := range s.members {
		for life := range m.lives() {
			if life.death != nil {
				c.tellDeath(life.obituary)
			}
		}
		if m.returned {
			c.tell(m.standing().line())
		}
	}
	if s.stopping != nil {
		c.tell(message{Type: tellStop, Why: *s.stopping}.line())
	}
	if s.finished {
		c.tell(s.end().line())
	} else if s.over {
		c.tell(message{Type: tellOver, View: s.ending.Latest()}.line())
	}
	if len(s.book.entries) > 0 {
		s.flushSoon()
	}
}

// serve reads the messages of a process until its connection ends.
func (s *Server) serve(c *session) {
	lines := newLines(c.conn, sayMax)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			s.log.Warn("control: bad message", "rank", c.member.rank, "error", err)
			break
		}
		if !s.hear(c, m) {
			break
		}
	}
	close(c.heardAll)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c)
	if c.member.session != c {
		return
	}
	// The pidfd says whether the process is alive. If it is, it may come
	// back until it has been silent for too long.
	c.member.session = nil
	if c.member.death == nil && !s.finished && !s.closing {
		s.log.Info("control: connection broken", "rank", c.member.rank, "error", lines.Err())
		s.emit(EventBroken, c.member.rank, "incarnation", c.member.incarnation)
	}
}

// hear acts on a message of a process. It returns false if that was its last.
func (s *Server) hear(c *session, said message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := c.member
	if m.session != c {
		return false
	}
	m.heard = time.Now()
	s.guard.Beat(protocol.Rank(m.rank))
	if said.Rank < 0 || said.Rank >= len(s.members) {
		return true // it asks about no process
	}
	switch said.Type {
	case sayBeat:
		c.tell(message{Type: tellBeat}.line())
	case sayAnnounce:
		s.announced(m, said)
	case sayReturned:
		s.returned(m, said)
	case sayResumed:
		s.resumed(m, said.View)
	case sayOver:
		s.ending.Learn(said.View)
		if s.ending.Knows(m.identity().member()); said.Known {
			s.ending.Sure(m.identity().member())
		}
		s.settle()
	case sayAsk:
		s.asked(c, said.Rank)
	case saySuspect:
		s.suspected(c, said)
	case sayHears:
		s.hears(c, said)
	case sayFence:
		s.fenceAsked(c, said)
	case sayLoad:
		m.load = &load{said.Tasks, said.Bytes}
	case sayEvent:
		s.relay(m, said.Event)
	case sayStates:
		s.stated(m, said)
	case sayBye:
		s.left(m, said.Record)
		return false
	default:
		s.log.Warn("control: unknown message", "rank", m.rank, "type", said.Type)
	}
	return true
}

func (s *Server) announced(m *member, said message) {
	if m.process == nil {
		m.pid = said.Pid
	}
	if s.page != nil && m.local {
		if beats, _ := s.page.Beats(m.rank, m.incarnation); beats > 0 {
			m.session.tell(message{Type: tellPaged}.line())
		}
	}
	peer := Peer{Rank: m.rank, Incarnation: m.incarnation, Addresses: said.Addresses, Host: said.Host}
	if m.peer != nil && m.peer.Host == peer.Host && slices.Equal(m.peer.Addresses, peer.Addresses) {
		return // sent again after a reconnect
	}
	m.peer, m.hostName = &peer, said.Name
	s.emit(EventAnnounced, m.rank, "incarnation", m.incarnation, "addresses", said.Addresses, "host", said.Host, "host_name", said.Name)
	s.book.add(peer)
	if s.allThere() {
		s.flush()
	} else {
		s.flushSoon()
	}
}

// asked reports a death again to a process that asks.
func (s *Server) asked(c *session, rank int) {
	// awaitExit handles a process that has exited just now, and notifies all.
	if m := s.members[rank]; m.death != nil {
		c.tellDeath(m.obituary)
	}
}

// left records that a process leaves. Before the job's end that is the same
// as its death: it has said, knowing the key, that it will never act again.
func (s *Server) left(m *member, record []byte) {
	if m.death == nil {
		how := "left before the end"
		if s.finished {
			how = "left"
		}
		s.die(m, Death{Certain: true, How: how, Record: record})
	}
}

// relay puts the event of a process into the stream.
func (s *Server) relay(m *member, raw json.RawMessage) {
	var e Event
	if err := json.Unmarshal(raw, &e); err != nil {
		s.log.Warn("control: bad event", "rank", m.rank, "error", err)
		return
	}
	e.Rank = m.rank
	if e.Type == EventView && !s.viewed(m, raw) {
		return
	}
	s.taken = s.taken || e.Type == EventTaken
	s.noteLoss(e)
	s.publish(e)
}

// allThere reports whether every live process has announced itself.
func (s *Server) allThere() bool {
	for _, m := range s.members {
		if s.awaited(m) && m.peer == nil {
			return false
		}
	}
	return true
}

// flushSoon sends the next batch within 5 ms, or later in a large job: each batch
// wakes all its processes, and while hundreds start there would be dozens of batches a
// second. While processes are awaited, it waits for half as long as the coordinator has, up to
// a bound. The last announcement, a failure and the end do not wait for it. s.mu is held.
func (s *Server) flushSoon() {
	n := time.Duration(len(s.sessions))
	soon := 5*time.Millisecond + n*n*2*time.Microsecond
	if !s.allThere() {
		soon = max(soon, min(time.Since(s.began)/2, awaitMax))
	}
	s.flushWithin(soon)
}

// awaitMax bounds how long a batch waits for processes that start.
const awaitMax = 500 * time.Millisecond

// flushWithin sends the next batch when that time is up, or before. s.mu is held.
func (s *Server) flushWithin(d time.Duration) {
	due := time.Now().Add(d)
	if !s.due.IsZero() && !due.Before(s.due) {
		return
	}
	s.due = due
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.due.Equal(due) && !s.closing {
			s.flush()
		}
	})
}

// flush sends all sessions the deaths, what they do not know of the address book,
// and the returns. s.mu is held.
func (s *Server) flush() {
	s.due = time.Time{}
	s.tellDeaths()
	s.tellReturns()
	encoded := map[int][][]byte{} // by what was sent before: most sessions share it
	for c := range s.sessions {
		lines, ok := encoded[c.told]
		if !ok {
			lines = s.book.batches(c.told)
			encoded[c.told] = lines
		}
		for _, line := range lines {
			c.tell(line)
		}
		c.told = len(s.book.entries)
	}
}
