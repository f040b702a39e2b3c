package control

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-go/coppice/internal/posix"
)

// A job outlives its directory. Several times a second the coordinator checks whether the directory
// still has its name. If somebody has removed it, the coordinator creates it again, and tells the processes to
// recreate their files there. If the coordinator is on another host, or cannot
// see a process beat, that process checks with every beat. A process that is killed before it has done so leaves no
// record: then its death is a suspicion (Server.readRecord).

// errReplaced is returned if the directory is that of another run of the job, with another key.
var errReplaced = errors.New("another run of the job has taken the directory")

// keep creates the directory, the file and the key again if they were removed.
func (l *lease) keep(how int, key []byte) error {
	if stillThere(l.file) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(l.dir), 0o700); err != nil {
		return err
	}
	again, err := lock(l.dir, filepath.Base(l.file.Name()), how)
	if err != nil {
		return err
	}
	err = writeKey(l.dir, key, os.Link)
	if errors.Is(err, fs.ErrExist) {
		var other []byte
		if other, err = readKey(l.dir); err == nil && !bytes.Equal(other, key) {
			err = errReplaced
		}
	}
	if err != nil {
		again.release()
		return err
	}
	l.file.Close()
	l.file = again.file
	return nil
}

// Keep makes one goroutine call f with every beat, to recreate what the caller
// has in the job's directory, if somebody has removed it.
func (c *Client) Keep(f func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = f
}

// keepDir recreates what this process has in the job's directory.
func (c *Client) keepDir() {
	c.mu.Lock()
	kept, closing := c.kept, c.closing
	c.mu.Unlock()
	if closing {
		return
	}
	err := c.users.keep(posix.LOCK_SH, c.place.Key)
	if err == nil {
		err = c.record.keep()
	}
	if err == nil && kept != nil {
		err = kept()
	}
	if err != nil && c.keeping == nil {
		c.log.Warn("control: the job's directory was removed and cannot be made again", "dir", c.place.Dir, "error", err)
	}
	c.keeping = err
}

// keepEvery is how often a coordinator checks its directory.
const keepEvery = 250 * time.Millisecond

// watchDir checks the job's directory until the coordinator closes.
func (s *Server) watchDir() {
	var before error
	for range every(s.ctx, keepEvery) {
		err := s.keepDir()
		if err != nil && before == nil {
			s.log.Warn("control: the job's directory was removed and cannot be made again", "dir", s.cfg.Dir, "error", err)
		}
		before = err
	}
}

// keepDir recreates what the coordinator has in the job's directory, through which
// new processes and observers find the job.
func (s *Server) keepDir() error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	if s.ctx.Err() != nil {
		return nil
	}
	if err := s.users.keep(posix.LOCK_SH, s.cfg.Key); err != nil {
		return err
	}
	if err := s.control.keep(posix.LOCK_EX, s.cfg.Key); err != nil {
		return err
	}
	if now, err := os.Lstat(controlPath(s.cfg.Dir)); err == nil && os.SameFile(s.socket, now) {
		return nil
	}
	s.log.Warn("control: the job's directory was removed; made again", "dir", s.cfg.Dir)
	s.mu.Lock()
	err := s.begins.write()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.listeners[0].Close()
	if err := s.listenHere(); err != nil {
		return err
	}
	l := s.listeners[0]
	s.wg.Go(func() { s.accept(l) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.tellAll(message{Type: tellKeep})
	}
	return nil
}

// listenHere listens for this host, at the first of the listeners.
func (s *Server) listenHere() error {
	l, err := net.Listen("unix", controlPath(s.cfg.Dir))
	if err != nil {
		return err
	}
	if s.socket, err = os.Lstat(controlPath(s.cfg.Dir)); err != nil { // removed at once
		l.Close()
		return err
	}
	if len(s.listeners) == 0 {
		s.listeners = []net.Listener{nil}
	}
	s.listeners[0] = l
	return nil
}
