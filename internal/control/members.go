package control

import (
	"iter"
	"math/rand/v2"
	"net"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/wire"
	"github.com/coppice-go/coppice/protocol"
)

// member is one incarnation of a rank, as the coordinator knows it.
type member struct {
	rank        int
	incarnation uint64   // 0: nothing is known of the rank yet
	life        uint64   // drawn by its process; 0: unknown
	numbered    bool     // this coordinator has chosen the incarnation
	gap         uint64   // from 1: the gap to the next incarnation, if another coordinator has chosen this one
	process     *process // the process that made the handshake; nil: not joined, or on another host
	pid         int      // its process id, as reported by itself if it is on another host
	joined      bool
	session     *session  // nil: not connected now
	heard       time.Time // when last; before it has joined: since when it is awaited
	peer        *Peer     // nil: it has not announced itself
	returned    bool
	turn        int    // how often it has resumed
	view        uint64 // the latest view in which it has returned or resumed
	failure     string // the first failure of its tasks
	failedAt    time.Time
	death       *Death
	diedAt      time.Time // when the coordinator learned of the death
	obituary    []byte    // the line that reports the death
	left        bool      // it ended after the job did
	unreturned  []int     // its tasks that had not returned when it ended
	quit        []int     // likewise, if it has exited with 0
	estate      []int     // the tasks that it owned when a view removed it
	removed     bool      // a view has removed it
	removedAt   time.Time
	load        *load   // as it reported; nil: it has reported nothing about its memory
	before      *member // the previous incarnation; nil: none is known
	local       bool    // it is on this host, and uses the directory that this coordinator serves
	hostName    string  // for people

	child    int             // the pid of what the launcher started for it, the process or a wrapper; 0: unknown
	exit     string          // how child ended, once the launcher has said so
	named    chan struct{}   // closed when exit is set
	fenced   string          // why it was killed
	quiet    bool            // fenced for silence, or has the work over which another process fell silent
	beats    uint64          // in the page, at the last look
	activity detect.Activity // likewise
	doubts   map[int]doubt   // by rank: which processes found it silent
	fencedAt time.Time
	fencedBy *member // the process that asked for it; nil: none
}

func newMember(rank int, incarnation uint64) *member {
	return &member{rank: rank, incarnation: incarnation, heard: time.Now(), named: make(chan struct{}), gap: 1 + rand.Uint64N(incarnationGap)}
}

// Peer is where a process can be reached.
type Peer struct {
	Rank        int      `json:"rank"`
	Incarnation uint64   `json:"incarnation"`
	Addresses   []string `json:"addresses"`
	Host        string   `json:"host,omitempty"`
}

// verdict decides about a process that has proven the key. s.mu is held.
func (s *Server) verdict(id wire.Identity, p *process) wire.Refusal {
	switch {
	case s.closing:
		return wire.Closing
	case id.To != coordinatorID:
		return wire.NotMe
	case id.From == observerID:
		if len(s.observers) >= observersMax {
			return wire.Crossed
		}
		return wire.Accepted
	case id.Job != [16]byte{} && id.Job != s.cfg.Job, id.Link != 0 && id.Link != s.instance && s.cfg.heir == nil:
		return wire.OtherJob
	case id.Received != 0 && id.Received != uint64(s.cfg.Size):
		return wire.OtherSize
	case int64(id.From) >= int64(len(s.members)):
		return wire.NoRank
	case id.Incarnation == 0 && id.Life == 0:
		return wire.Excluded
	}
	m := s.members[id.From]
	switch incarnation := s.incarnation(id, p); {
	case incarnation < m.incarnation:
		return wire.Excluded
	case incarnation > m.incarnation:
		if !m.vacant(id.Incarnation == 0) {
			return wire.Crossed // the previous incarnation is alive
		}
	case m.death != nil || m.joined && !m.same(id, p):
		return wire.Excluded
	}
	return wire.Accepted
}

// same reports whether a connection comes from the process that joined.
func (m *member) same(id wire.Identity, p *process) bool {
	if m.life != 0 && id.Life != 0 {
		return m.life == id.Life
	}
	if m.process != nil && p != nil {
		return m.process.pid == p.pid
	}
	return m.process == nil && p == nil && (id.Link != 0 || m.session == nil)
}

// enroll makes a connection the session of its process. It returns nil if that is no
// longer possible.
func (s *Server) enroll(id wire.Identity, p *process, conn, raw net.Conn) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verdict(id, p) != wire.Accepted {
		return nil
	}
	m := s.members[id.From]
	if incarnation := s.incarnation(id, p); incarnation > m.incarnation {
		s.replaced(m, incarnation)
		if id.Incarnation == 0 {
			s.noteBegun(m.rank)
		}
		m = s.renew(m.rank, incarnation)
		m.numbered = id.Incarnation == 0
	}
	m.life = id.Life
	s.disconnect(m)
	m.session = newSession(m, conn, raw, sessionRoom)
	_, m.local = conn.(*net.UnixConn)
	m.heard = time.Now()
	s.sessions[m.session] = true
	s.wg.Go(m.session.write)
	if m.joined {
		p.close()
		s.emit(EventJoined, m.rank, "incarnation", m.incarnation, "pid", m.pid, "again", true)
	} else {
		s.admit(m, p)
	}
	if s.gathering {
		s.gathered(false)
	} else {
		s.welcome(m.session)
	}
	return m.session
}

// admit records a process that joins for the first time. From the first one on, the time for the
// others to join runs.
func (s *Server) admit(m *member, p *process) {
	if !s.begun {
		s.begun = true
		for _, other := range s.members {
			other.heard = m.heard
		}
	}
	m.joined, m.process = true, p
	s.ending.Joined(m.identity().member())
	if p != nil && p.own() && s.cfg.self != (Identity{}) && int(s.cfg.self[0]) == m.rank {
		s.cfg.self = m.identity()
	}
	s.guard.Join(protocol.Rank(m.rank), p != nil && !p.own())
	if p != nil {
		m.pid = p.pid
		s.processes[p] = true
		s.wg.Go(func() { s.awaitExit(m, p) })
	}
	s.log.Info("control: joined", "rank", m.rank, "incarnation", m.incarnation, "pid", m.pid)
	s.emit(EventJoined, m.rank, "incarnation", m.incarnation, "pid", m.pid)
}

// name records how what the launcher started has ended.
func (m *member) name(how string) {
	if m.exit == "" {
		m.exit = how
		close(m.named)
	}
}

// lives yields the known incarnations of a rank, the first one first.
func (m *member) lives() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		if m.before != nil {
			for life := range m.before.lives() {
				if !yield(life) {
					return
				}
			}
		}
		yield(m)
	}
}

// disconnect ends the session of a process. s.mu is held.
func (s *Server) disconnect(m *member) {
	if m.session != nil {
		m.session.raw.Close()
		delete(s.sessions, m.session)
		m.session = nil
	}
}

// drop closes a pidfd. s.mu is held.
func (s *Server) drop(p *process) {
	delete(s.processes, p)
	p.close()
}

// member returns the latest incarnation of a rank, created if it is newer than what is
// known; nil if it is older, or the rank is invalid. s.mu is held.
func (s *Server) member(rank int, incarnation uint64) *member {
	if rank < 0 || rank >= len(s.members) || incarnation < s.members[rank].incarnation {
		return nil
	}
	if incarnation > s.members[rank].incarnation {
		if m := s.members[rank]; m.joined && m.death == nil && !(m.process != nil && m.process.exited()) {
			return nil // it is alive: no launcher starts another one
		} else if m.joined && m.death == nil {
			s.die(m, Death{Certain: true, How: m.how()})
		}
		s.renew(rank, incarnation)
	}
	return s.members[rank]
}

// Started records which process a launcher started for a rank, the
// process itself or a wrapper.
func (s *Server) Started(rank int, incarnation uint64, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.member(rank, incarnation); m != nil {
		m.child = pid
		s.emit(EventStarted, rank, "incarnation", incarnation, "pid", pid)
	}
}

// Will is what an agent found in the record of a process that has exited on its
// host.
type Will struct {
	Record []byte `json:"record,omitempty"`
	Unread string `json:"unread,omitempty"` // why it could not be read
}

// ReadWill reads what one incarnation of a rank has left in the directory of its
// host, for an agent to pass on.
func ReadWill(dir string, rank int, incarnation uint64) (w Will) {
	record, err := ReadRecord(dir, rank, incarnation)
	if w.Record = record; err != nil {
		w.Unread = err.Error()
	}
	return w
}

// Exited records how what a launcher started for a rank has ended: without a Will on this
// host, with one on another host, whose agent reports it. If the rank never joined, or if
// that was its process, the rank is dead. If that was a wrapper, the rank lives as long
// as its process.
func (s *Server) Exited(rank int, incarnation uint64, how string, w Will) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.member(rank, incarnation)
	if m == nil || m.exit != "" {
		return
	}
	m.name(how)
	switch {
	case m.death != nil && m.death.Certain:
		if m.death.How == exited { // the notice could not wait: it now gets the reason
			m.death.How = m.how()
			m.obituary = m.death.message().line()
			s.checkQuit(m)
			s.settle()
		}
	case !m.joined:
		s.die(m, Death{Certain: true, How: "never joined: " + how})
	case m.process == nil && m.child != 0 && m.child == m.pid: // an agent on its host says so
		d := Death{Certain: true, How: m.how(), Record: w.Record}
		if w.Unread != "" && m.peer != nil { // a process that never announced itself has promised nothing
			d.unread(w.Unread)
		}
		s.die(m, d)
	}
}

// State is the state of a process.
type State string

// The states, in their usual order.
const (
	Absent   State = "absent"   // not joined
	Joined   State = "joined"   // but has not announced where it listens
	Present  State = "present"  // at work
	Returned State = "returned" // its tasks have returned
	Dead     State = "dead"     // or taken for dead
)

// Status is what the coordinator knows of a rank.
type Status struct {
	Rank        int      `json:"rank"`
	Incarnation uint64   `json:"incarnation"`
	State       State    `json:"state"`
	Pid         int      `json:"pid,omitempty"`
	Host        string   `json:"host,omitempty"`
	HostName    string   `json:"host_name,omitempty"` // for people
	Addresses   []string `json:"addresses,omitempty"`
	Connected   bool     `json:"connected"`
	How         string   `json:"how,omitempty"`     // of the dead
	Certain     bool     `json:"certain,omitempty"` // of the dead
	Left        bool     `json:"left,omitempty"`    // of the dead: when the job had finished
	Failure     string   `json:"failure,omitempty"` // of the returned
	Quit        []int    `json:"quit,omitempty"`    // of a process that exited with 0: its tasks that had not returned

	FailedAt time.Time `json:"failed_at,omitzero"` // of those that returned a failure
	DiedAt   time.Time `json:"died_at,omitzero"`   // when the coordinator learned of it
}

func (m *member) status() Status {
	st := Status{
		Rank: m.rank, Incarnation: m.incarnation, Pid: m.pid, HostName: m.hostName,
		Connected: m.session != nil, Left: m.left, Failure: m.failure, FailedAt: m.failedAt, DiedAt: m.diedAt, Quit: m.quit, State: Absent,
	}
	if m.peer != nil {
		st.Host, st.Addresses = m.peer.Host, m.peer.Addresses
	}
	switch {
	case m.death != nil:
		st.State, st.How, st.Certain = Dead, m.death.How, m.death.Certain
	case m.returned:
		st.State = Returned
	case m.peer != nil:
		st.State = Present
	case m.joined:
		st.State = Joined
	}
	return st
}

// Status returns the state of each rank: those of the job's size,
// and those beyond up to the last known one.
func (s *Server) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present()
}

func (s *Server) present() []Status {
	n := len(s.members)
	for n > s.cfg.Size && s.members[n-1].incarnation == 0 {
		n--
	}
	all := make([]Status, n)
	for rank, m := range s.members[:n] {
		all[rank] = m.status()
	}
	return all
}

// former returns the status of the incarnations that others have followed.
func (s *Server) former() (all []Status) {
	for _, m := range s.members {
		if m.before != nil {
			for life := range m.before.lives() {
				all = append(all, life.status())
			}
		}
	}
	return all
}
