package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/coppice-go/coppice/internal/segment"
)

// shared is a connection in memory that both processes have mapped. The socket below it stays: a byte there wakes a peer that
// sleeps, and its end is the peer's. If the kernel allows it, the reader of a large piece copies it out of the writer's memory,
// once, where otherwise both would copy.
type shared struct {
	in      segment.Reader
	out     segment.Writer
	memory  []byte
	peer    *segment.Inbox // where we mark what we have written
	self    int            // as whom
	rung    bool           // the socket has something to read
	marked  func()         // marks, for the writer
	sleeps  bool           // the peer slept when it was marked last
	fd      int            // of the socket, while it is read
	pid     int            // of the peer
	rank    uint32         // of the peer
	unread  *sync.Map      // of the endpoint
	oneByte [1]byte
}

// What the two say to each other once both have proven who they are. With sharing come the files of the rings and
// of the inbox, or of the inbox alone.
const (
	sharing    = 's'
	notSharing = 'n'
)

// share agrees with the peer on memory to share; nil: the bytes go through the socket. Any process of the two may refuse.
func (e *Endpoint) share(conn *net.UnixConn, self, pid int, peer uint32, first bool) (s *shared, err error) {
	s = &shared{self: self, pid: pid, rank: peer, unread: &e.unread}
	defer func() {
		if err != nil || s.peer == nil {
			err = errors.Join(err, s.close())
			s = nil
		}
	}()
	if !first {
		return s, e.acceptShare(conn, s)
	}
	var files []*os.File
	if in, vain := e.cfg.Inbox, has(&e.unshared, peer); in != nil && !vain {
		rings, memory, err := segment.NewPair(e.cfg.Ring)
		if err != nil {
			e.cfg.Logger.Debug("no shared memory", "error", err)
		} else {
			defer rings.Close()
			s.memory = memory
			if s.in, s.out, err = segment.Pair(memory, true); err != nil {
				return s, err
			}
			files = []*os.File{rings, in.File()}
		}
	}
	if err := sendFiles(conn, files); err != nil {
		return s, err
	}
	got, shares, err := receiveFiles(conn)
	defer closeAll(got)
	switch {
	case err != nil || len(files) == 0 || !shares:
		return s, err
	case len(got) == 0: // the peer cannot be told any more, so this connection is of no use
		e.unshared.Store(peer, true)
		return s, errNoFiles
	}
	return s, s.with(got[0])
}

// acceptShare is share at the process to which the other has connected.
func (e *Endpoint) acceptShare(conn *net.UnixConn, s *shared) error {
	got, _, err := receiveFiles(conn)
	defer closeAll(got)
	if err != nil {
		return err
	}
	var files []*os.File
	if in := e.cfg.Inbox; in != nil && len(got) == 2 { // the kernel may have kept some back
		s.memory, s.in, s.out, err = segment.OpenPair(got[0])
		if err == nil {
			err = s.with(got[1])
		}
		if err == nil {
			files = []*os.File{in.File()}
		} else {
			e.cfg.Logger.Debug("no shared memory", "error", err)
		}
	}
	return sendFiles(conn, files)
}

// with opens the inbox of the peer.
func (s *shared) with(f *os.File) (err error) {
	if s.peer, err = segment.OpenInbox(f); err != nil {
		return err
	}
	s.marked = func() { s.sleeps = s.peer.Mark(s.self) }
	if s.pid > 0 && !refusePulls && !has(s.unread, s.rank) && s.peer.Pulls(s.pid) {
		s.in.Pull(s.pull)
	}
	return nil
}

// has reports whether a rank is in a set.
func has(set *sync.Map, rank uint32) bool {
	_, ok := set.Load(rank)
	return ok
}

// refusePulls has tests do without reading the peer's memory, as where the kernel forbids it.
var refusePulls bool

// pull copies bytes out of the peer's memory. Its number may be another process's by now: not if it has not closed the socket.
func (s *shared) pull(b []byte, address uint64) error {
	if err := segment.PullFrom(s.pid, b, address); err != nil {
		if !segment.Gone(err) { // the kernel does not allow it any more, or not there: the next connection does without
			s.unread.Store(s.rank, true)
		}
		return err
	}
	if err := s.hear(); err != ErrAgain {
		return err
	}
	return nil
}

// hear takes the bytes that have woken this process, and returns why there are no more: ErrAgain, or the end of the peer.
func (s *shared) hear() (err error) {
	var bell [64]byte
	for err == nil {
		_, err = receive(s.fd, bell[:])
	}
	s.rung = err != ErrAgain
	return err
}

// close gives the memory back.
func (s *shared) close() (err error) {
	if s.memory != nil {
		s.out.Close()
		err = segment.ClosePair(s.memory)
		s.memory = nil
	}
	if s.peer != nil {
		err = errors.Join(err, s.peer.Close())
		s.peer = nil
	}
	return err
}

// read reads what is in the ring, and what the socket has to say if it has rung.
func (s *shared) read(fd int, b []byte) (int, error) {
	if s.memory == nil {
		return 0, net.ErrClosed
	}
	s.fd = fd
	n, awaited, err := s.in.Read(b)
	if awaited {
		s.marked()
		if e := s.wake(fd); !errors.Is(e, syscall.EPIPE) { // otherwise the peer is gone, which the socket tells after all that is in the ring
			err = errors.Join(err, e)
		}
	}
	if n > 0 || err != nil {
		return n, err
	}
	if !s.rung {
		return 0, ErrAgain
	}
	if err = s.hear(); !s.in.Empty() { // written before the bell, or before the end
		return s.read(fd, b)
	}
	return 0, err
}

// write writes as much as there is room for, and wakes the peer if it sleeps.
func (s *shared) write(fd int, bufs [][]byte) (total int, err error) {
	if s.memory == nil {
		return 0, net.ErrClosed
	}
	for _, b := range bufs {
		if s.out.Refer(b) {
			s.marked()
			total += len(b)
			continue
		}
		var n int
		n, err = s.out.Write(b, s.marked)
		total += n
		if err != nil || n < len(b) {
			break
		}
	}
	if err = errors.Join(err, s.wake(fd)); err != nil {
		return total, err
	}
	if total == 0 {
		return 0, ErrAgain
	}
	return total, nil
}

// wake wakes the peer if it slept when it was marked. A socket without room for another byte has one that wakes it.
func (s *shared) wake(fd int) error {
	if !s.sleeps {
		return nil
	}
	s.sleeps = false
	if _, err := send(fd, s.oneByte[:]); err != ErrAgain {
		return err
	}
	return nil
}

// Shared reports whether the bytes go through memory that both processes share.
func (c *Conn) Shared() bool { return c.shared != nil }

// Rung takes note that the descriptor is readable: the peer has woken this process, or has closed the connection.
func (c *Conn) Rung() {
	if c.shared != nil {
		c.shared.rung = true
	}
}

// AwaitRoom says whether the peer is to mark the Inbox once there is room to write, and reports whether there is some already.
func (c *Conn) AwaitRoom(on bool) (room bool) {
	c.shared.out.Await(on)
	n, err := c.shared.out.Room()
	return on && (n > 0 || err != nil)
}

// sendFiles says whether memory is to be shared, and sends the files that it takes.
func sendFiles(conn *net.UnixConn, files []*os.File) error {
	what := []byte{notSharing}
	var rights []byte
	if len(files) > 0 {
		what[0] = sharing
		rights = fileRights(files)
	}
	n, m, err := conn.WriteMsgUnix(what, rights, nil)
	if err == nil && (n != 1 || m != len(rights)) {
		err = io.ErrShortWrite
	}
	return err
}

var errNoFiles = errors.New("shared memory: its files have not come")

// receiveFiles reports whether the peer shares, and returns the files that have come.
func receiveFiles(conn *net.UnixConn) (files []*os.File, shares bool, err error) {
	var what [1]byte
	room := make([]byte, 64)
	n, m, _, _, err := conn.ReadMsgUnix(what[:], room)
	files = filesOf(room[:m])
	switch {
	case err != nil:
	case n == 0:
		err = io.EOF
	case what[0] == notSharing && len(files) == 0, what[0] == sharing:
	default:
		err = fmt.Errorf("shared memory: %d files with %q", len(files), what[:])
	}
	return files, what[0] == sharing, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
