package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/wire"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/ending"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/suspicion"
)

// ServerConfig configures a coordinator.
type ServerConfig struct {
	Dir  string   // the job's directory: the control socket, and the key if Key is nil
	Job  [16]byte // zero: Serve draws a new one
	Key  []byte   // nil: Serve draws a new one and writes it to Dir
	Size int      // processes, ranks 0 … Size−1
	Grow int      // how many processes may join beyond Size while the job runs, with ranks from Size on; if it is above 0, dead processes may come back on request

	Command   string          // what the processes run, for people: observers tell jobs apart by it
	LocalSize int             // processes on this host; 0: all
	Settings  json.RawMessage // the launcher's settings for the processes; up to 512 KiB
	TCP       string          // where processes on other hosts find the coordinator; "": nowhere; ":0": on a free port; HOST:LOW-HIGH: on the first free port of these

	// Silence is how long a process of this host may be silent before it is fenced,
	// if another process can take over; 0: 3 s.
	Silence time.Duration
	// JoinTimeout is how long after the first process joined, or after it was requested, a process
	// may join; then it counts as dead, though not certainly. 0: 60 s.
	JoinTimeout time.Duration

	// Kill sends an order to the agent on the host of a process, which kills the process for certain and soon, or refuses
	// (Spared); it does not block. nil: there are no agents.
	Kill func(Fence)
	// Join starts processes that an observer asks for; it may take its time. nil:
	// the job has no launcher that does.
	Join func(JoinRequest) ([]Joiner, error)

	Events func(Event)  // called with every event, in order, by one goroutine; may be nil
	Logger *slog.Logger // nil: silent

	shared bool            // the directory belongs to all processes: the last to leave removes it
	self   Identity        // the process of the job that the coordinator is part of; zero: none
	heir   *heir           // what a successor begins with; nil: this is the first coordinator
	spread bool            // processes may be on other hosts
	seeds  func() seedList // where processes look for the coordinator; nil: at TCP

	gatherer Place            // the place of the process that gathers the others at the seeds
	recalled func(*elsewhere) // called with the place of the job that this coordinator gave way to

	tellUnnamed func(at []string, began time.Time, most time.Duration) // called with the seeds whose names do not resolve
}

// Defaults and bounds.
const (
	SilenceDefault = 3 * time.Second
	settingsMax    = 512 << 10
	commandMax     = 1000                   // length of a command that observers see, in bytes
	handshakeMax   = 5 * time.Second        // limit of a handshake over the network, at first
	farewellMax    = 500 * time.Millisecond // limit for the last messages on a connection
	observersMax   = 64
	sessionRoom    = 16 << 20 // bytes that may wait for a process
	observerRoom   = 4 << 20  // bytes that may wait for an observer, beyond the past events
	eventsRoom     = 64 << 20
)

// Server is a coordinator.
type Server struct {
	cfg       ServerConfig
	log       *slog.Logger
	began     time.Time
	instance  uint64         // random; a client that comes back names the coordinator that it means
	keeping   sync.Mutex     // guards the listeners and the leases, which keepDir replaces
	socket    fs.FileInfo    // of the first listener
	listeners []net.Listener // the first one in the directory
	control   *lease         // proves that there is no other coordinator in the directory
	page      *detect.Page   // in which the processes of this host beat; nil: there is none
	users     *lease
	lobby     *lobby
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	closeOnce sync.Once
	done      chan struct{} // closed when the job has finished

	mu        sync.Mutex
	begun     bool      // a process has joined
	gathering bool      // not all processes have joined, and none is welcomed
	unnamed   []string  // meanwhile: the seeds whose names do not resolve
	members   []*member // by rank: the latest incarnation
	sessions  map[*session]bool
	observers map[*session]bool
	processes map[*process]bool // whose pidfds are open
	book      addressBook
	view      *View             // the latest that a process reported; nil: none
	in        map[Identity]bool // its members
	ending    *ending.Job
	begins    begins
	first     *View     // the view that the job began with; nil: no process has reported it
	taken     bool      // a process continues with what an earlier run has stored
	news      []*member // have returned, which the others do not know
	deaths    [][]byte  // death notices that not all processes have
	due       time.Time // when the next batch is sent; zero: none is pending
	past      [][]byte  // the last events, as lines
	events    *mailbox[Event]
	guard     *suspicion.Guard
	surveys   int // how many have begun
	survey    map[int]*survey
	lost      map[int]string // why a task cannot be run again, by task
	over      bool           // every task has returned, and the others are being told (tellOver)
	finished  bool
	forlorn   string  // why the job finished although tasks are not done; "": they are done
	stopping  *string // the reason
	closing   bool
}

// Serve starts the coordinator of a job.
func Serve(cfg ServerConfig) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, instance: drawNumber(), began: time.Now(),
		lobby: newLobby(256 + cfg.Size), done: make(chan struct{}),
		members:  make([]*member, cfg.Size+cfg.Grow),
		sessions: map[*session]bool{}, observers: map[*session]bool{}, processes: map[*process]bool{},
		events: newMailbox[Event](eventsRoom),
		guard:  suspicion.NewGuard(protocol.Time(cfg.Silence), 0),
		ending: ending.New(membership.First(cfg.Size, nil)), gathering: cfg.seeds != nil && cfg.heir == nil,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if cfg.self != (Identity{}) {
		s.ending.Inside(protocol.Time(cfg.Silence))
	}
	for rank := range s.members {
		s.members[rank] = newMember(rank, 0)
	}
	s.begins = begins{dir: cfg.Dir, instance: s.instance, ranks: make([]byte, len(s.members))}
	if err := s.open(); err != nil {
		s.shut()
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	s.mu.Lock()
	if cfg.heir != nil {
		s.succeed(cfg.heir)
	}
	s.emit(EventJob, -1, "job", fmt.Sprintf("%x", s.cfg.Job), "size", cfg.Size, "grow", cfg.Grow, "pid", os.Getpid(), "command", cfg.Command)
	s.log.Info("control: job", "name", JobName(cfg.Dir), "size", cfg.Size, "pid", os.Getpid(), "command", cfg.Command)
	s.mu.Unlock()
	s.wg.Go(s.watchSilence)
	s.wg.Go(s.watchDir)
	s.wg.Go(s.reportEvents)
	if s.cfg.seeds != nil {
		s.wg.Go(s.lookAround)
	}
	for _, l := range s.listeners {
		s.wg.Go(func() { s.accept(l) })
	}
	return s, nil
}

// Host starts the coordinator of the job of a process whose place says that it hosts
// the coordinator. cfg need not contain what the place says. The returned place
// is complete. If the job, which its key names, runs already, because the process was started again, Host returns no coordinator: another process
// has it, or will.
func Host(p Place, cfg ServerConfig) (*Server, Place, error) {
	if p.Dir == "" { // a job of one process
		dir, err := MakeDir(os.Getenv)
		if err != nil {
			return nil, p, fmt.Errorf("coordinator: %w", err)
		}
		p.Dir, p.Coordinator = dir, controlPath(dir)
	} else {
		if p.Key != nil && runs(p.Dir, p.Key, cmp.Or(p.JoinTimeout, joinTimeout)) {
			p.Host = false
			return nil, p, nil
		}
		cfg.shared = true
	}
	cfg.Dir, cfg.Job, cfg.Key, cfg.Size, cfg.LocalSize = p.Dir, p.Job, p.Key, p.Size, p.LocalSize
	cfg.self, cfg.JoinTimeout = Identity{uint64(p.Rank), max(p.Incarnation, 1)}, p.JoinTimeout
	cfg.Command = strings.Join(os.Args, " ")
	if p.Coordinator != "" && p.Coordinator != controlPath(p.Dir) {
		cfg.TCP = p.Coordinator
	}
	s, err := Serve(cfg)
	if err == nil {
		p.Job, p.Key = s.cfg.Job, s.cfg.Key
	}
	return s, p, err
}

// complete checks the configuration and sets defaults.
func (c *ServerConfig) complete() error {
	switch {
	case c.Size < 1 || c.Size > SizeMax:
		return fmt.Errorf("size %d; allowed: 1 to %d", c.Size, SizeMax)
	case c.Grow < 0 || c.Grow > SizeMax-c.Size:
		return fmt.Errorf("growth by %d; allowed: 0 to %d", c.Grow, SizeMax-c.Size)
	case len(c.Dir) > dirMax:
		return fmt.Errorf("directory %s: %d bytes; allowed: up to %d, for its sockets", c.Dir, len(c.Dir), dirMax)
	case len(c.Settings) > settingsMax:
		return fmt.Errorf("settings of %d bytes; allowed: up to %d", len(c.Settings), settingsMax)
	case len(c.Settings) > 0 && !json.Valid(c.Settings):
		return errors.New("settings are not JSON")
	}
	if c.LocalSize == 0 {
		c.LocalSize = c.Size
	}
	c.spread = c.spread || c.TCP != "" || c.seeds != nil
	if c.Silence <= 0 {
		c.Silence = SilenceDefault
	}
	if c.JoinTimeout <= 0 {
		c.JoinTimeout = joinTimeout
	}
	if len(c.Command) > commandMax {
		c.Command = strings.ToValidUTF8(c.Command[:commandMax], "") + "…"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Job == ([16]byte{}) {
		rand.Read(c.Job[:]) // never fails
	}
	return nil
}

func drawNumber() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// open takes the directory and listens in it. It replaces what a dead coordinator left
// there, above all its key, so that none of that coordinator's processes can
// mistake this one for it.
func (s *Server) open() (err error) {
	dir := s.cfg.Dir
	if s.users, err = lock(dir, usersName, posix.LOCK_SH); err != nil {
		return err
	}
	if s.control, err = lock(dir, hostName, posix.LOCK_EX); errors.Is(err, errTaken) {
		return fmt.Errorf("another one is at work in %s: %w", dir, err)
	} else if err != nil {
		return err
	}
	os.Remove(controlPath(dir))
	if s.cfg.heir == nil {
		if err := forgetRecords(dir); err != nil {
			return err
		}
	}
	if s.cfg.Key == nil {
		s.cfg.Key = newKey()
	}
	if err := writeKey(dir, s.cfg.Key, os.Rename); err != nil {
		return err
	}
	if s.cfg.heir != nil {
		s.begins.inherit(s.cfg.heir.instance)
	}
	if s.page, err = detect.OpenPage(dir, s.cfg.Size+s.cfg.Grow); err != nil {
		s.log.Warn("control: processes beat by messages", "error", err)
	}
	if err := s.listenHere(); err != nil {
		return err
	}
	if s.cfg.TCP != "" {
		l, err := ListenPorts(s.cfg.TCP, false)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, l)
	}
	return s.begins.write()
}

// Port returns where processes on other hosts find the coordinator, as :PORT.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.listeners[1].Addr().String())
	return ":" + port
}

// Place returns the place of a process that a launcher is about to start.
func (s *Server) Place(rank int, incarnation uint64) Place {
	_ = s.keepDir() // the new process reads the key; if it cannot, it says so
	return s.place(newMember(rank, incarnation))
}

func (s *Server) place(m *member) Place {
	rank, incarnation := m.rank, m.incarnation
	return Place{
		Dir: s.cfg.Dir, Job: s.cfg.Job, Key: s.cfg.Key, Rank: rank, Size: s.cfg.Size,
		Incarnation: incarnation, Coordinator: controlPath(s.cfg.Dir),
		LocalRank: rank, LocalSize: s.cfg.LocalSize, Grow: s.cfg.Grow, How: RunHow,
	}
}

// accept accepts connections until the listener is closed.
func (s *Server) accept(l net.Listener) {
	var told string // the last error, which is likely to come again
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the peer has gone
			if err.Error() != told {
				told = err.Error()
				s.log.Warn("control: cannot accept", "error", err)
			}
			pause(s.ctx, 5*time.Millisecond) // after the end the listener is closed
			continue
		}
		s.wg.Go(func() { s.receive(conn) })
	}
}

// receive makes the handshake on a connection and serves it.
func (s *Server) receive(conn net.Conn) {
	defer conn.Close()
	s.lobby.enter(conn)
	defer s.lobby.leave(conn)
	conn.SetDeadline(time.Now().Add(joinTimeout)) // the lobby is bounded: a full lobby turns out the slowest
	proc, err := takeProcess(conn)                // before the challenge: the process that answers it is this one
	if err != nil {
		s.log.Debug("control: the peer has gone", "error", err)
		return
	}
	talk, binding, err := secure(conn, wire.Server)
	if err != nil {
		proc.close()
		s.log.Debug("control: no secure channel", "error", err)
		return
	}
	id, err := wire.Accept(talk, s.cfg.Key, binding, func(id wire.Identity) (wire.Identity, wire.Refusal) {
		s.lobby.leave(conn) // it has proven the key
		s.mu.Lock()
		defer s.mu.Unlock()
		me := wire.Identity{Job: s.cfg.Job, From: coordinatorID, To: id.From, Incarnation: s.instance, Received: uint64(s.cfg.Size)}
		return me, s.verdict(id, proc)
	})
	if err != nil {
		proc.close()
		if errors.Is(err, io.EOF) { // the peer only checked whether a coordinator listens (Runs), or has died
			s.log.Debug("control: the peer has gone", "error", err)
			return
		}
		s.log.Info("control: turned away", "from", conn.RemoteAddr(), "rank", id.From, "error", err)
		return
	}
	talk.SetDeadline(time.Time{})
	if id.From == observerID {
		proc.close()
		s.observe(talk, conn)
		return
	}
	if session := s.enroll(id, proc, talk, conn); session != nil {
		s.serve(session)
	} else {
		proc.close()
	}
}

// Done is closed when the job has finished: every live process has returned.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop asks all processes, including those that join later, to end gracefully.
func (s *Server) Stop(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(reason)
}

// stop is Stop. s.mu is held.
func (s *Server) stop(reason string) {
	if s.stopping != nil {
		return
	}
	s.stopping = &reason
	s.log.Info("control: stop", "reason", reason)
	s.emit(EventStop, -1, "reason", reason)
	s.tellAll(message{Type: tellStop, Why: reason})
}

// Close ends the coordinator: connected clients lose it. Close removes a directory
// that the launcher created. The last process to leave removes a directory that the processes
// share.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.emit(EventEnd, -1)
		s.closing = true
		s.tellAll(message{Type: tellClosing})
		soon := time.Now().Add(farewellMax)
		for _, all := range []map[*session]bool{s.sessions, s.observers} {
			for session := range all {
				session.out.close()
				session.conn.SetDeadline(soon)
			}
		}
		for p := range s.processes {
			s.drop(p)
		}
		s.events.close()
		s.mu.Unlock()
		s.shut()
	})
}

// shut closes what open opened and waits for everything in progress.
func (s *Server) shut() {
	s.keeping.Lock()
	s.cancel()
	for _, l := range s.listeners {
		l.Close()
	}
	s.keeping.Unlock()
	s.lobby.close()
	s.wg.Wait()
	if s.page != nil {
		_ = s.page.Close()
	}
	s.control.release()
	if s.cfg.shared {
		s.users.leave(0)
		return
	}
	s.users.release()
	if s.users != nil && s.control != nil {
		removeDir(s.cfg.Dir)
	}
}
