package control

import (
	"errors"
	"io/fs"
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// Death is the end of an incarnation.
type Death struct {
	Rank        int
	Incarnation uint64
	Certain     bool   // the kernel says so; otherwise it is a suspicion
	How         string // "killed by SIGKILL", "exited with 3", "never joined: exited with 0", "fenced: silent for 3.0s", …
	Record      []byte // what it has left; of the certainly dead only, and complete
}

// Before the coordinator announces a death, it reads what the process still sent, which the
// kernel has kept, and waits for the launcher to say how the process ended. These bound the two.
const (
	wordsMax = farewellMax // they come at once, unless the machine is busy
	nameMax  = 2 * time.Millisecond
)

// awaitExit reports the death of a process.
func (s *Server) awaitExit(m *member, p *process) {
	if !p.wait() {
		return
	}
	s.mu.Lock()
	session, child := m.session, m.child
	s.mu.Unlock()
	if session != nil {
		await(session.heardAll, wordsMax)
	}
	how := p.ending()
	if how == "" && child == p.pid { // the launcher was faster, and is about to tell
		await(m.named, nameMax)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if how != "" && (child == 0 || child == p.pid) {
		m.name(how)
	}
	if m.death == nil || !m.death.Certain {
		s.die(m, Death{Certain: true, How: m.how()})
	}
	s.drop(p)
}

func await(c <-chan struct{}, atMost time.Duration) {
	select {
	case <-c:
	case <-time.After(atMost):
	}
}

// exited is the end of a process of which nobody says more.
const exited = "exited"

// how names the end of a process that has exited.
func (m *member) how() string {
	switch {
	case m.fenced != "":
		return "fenced: " + m.fenced
	case m.exit == "" || m.child != 0 && m.child != m.pid:
		return exited
	case m.death != nil && !m.death.Certain:
		return m.death.How + ", then " + m.exit
	}
	return m.exit
}

// die takes note of a death and tells everybody. s.mu is held.
func (s *Server) die(m *member, d Death) {
	d.Rank, d.Incarnation = m.rank, m.incarnation
	if d.Certain && d.Record == nil && m.local && !s.finished { // then nobody decides any more
		s.readRecord(&d, m.peer != nil)
	}
	m.death, m.diedAt, m.obituary = &d, time.Now(), d.message().line()
	s.guard.Leave(protocol.Rank(m.rank))
	s.ending.Died(m.identity().member())
	if m.session != nil {
		m.session.raw.Close()
		delete(s.sessions, m.session)
		m.session = nil
	}
	if d.Certain && m.process != nil {
		s.drop(m.process)
	}
	if s.finished || s.closing { // leaving is not failing
		m.left = s.finished
		s.emit(EventLeft, m.rank, "incarnation", m.incarnation, "certain", d.Certain, "how", d.How)
		return
	}
	m.unreturned = s.unreturned(m)
	s.checkQuit(m)
	s.tellDeath(m.obituary) // before all else: others wait for it
	s.log.Info("control: died", "rank", m.rank, "incarnation", m.incarnation, "certain", d.Certain, "how", d.How)
	s.emit(EventDied, m.rank, "incarnation", m.incarnation, "certain", d.Certain, "how", d.How)
	s.settle()
}

// readRecord adds what the dead process has left on this host. If that cannot be
// read, nobody may count on knowing what it has promised: then its death is no
// better than a suspicion. Who never announced itself has promised nothing.
func (s *Server) readRecord(d *Death, announced bool) {
	record, err := ReadRecord(s.cfg.Dir, d.Rank, d.Incarnation)
	d.Record = record
	if err != nil && (announced || !errors.Is(err, fs.ErrNotExist)) {
		d.unread(err.Error())
	}
}

// unread makes a suspicion of a death without the record.
func (d *Death) unread(why string) {
	d.Certain = false
	d.How += ", but its record cannot be read: " + why
}

// tellDeath tells the process of the lowest rank of a death at once, since it is the
// one who proposes the next view, and the others in a while: they learn it from the
// view, and should not be kept from deciding it.
func (s *Server) tellDeath(line []byte) {
	for _, m := range s.members {
		if m.session == nil {
			continue
		}
		if !m.session.tellAtOnce(line) {
			m.session.tellDeath(line)
		}
		break
	}
	if s.deaths == nil {
		time.AfterFunc(deathsTime, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.closing {
				s.tellDeaths()
			}
		})
	}
	s.deaths = append(s.deaths, line)
}

// deathsTime is how long the others wait for word of a death: who needs it asks.
const deathsTime = 100 * time.Millisecond

// tellDeaths tells all processes of the deaths since the last batch. s.mu is held.
func (s *Server) tellDeaths() {
	for c := range s.sessions {
		for _, line := range s.deaths {
			c.tellDeath(line)
		}
	}
	s.deaths = nil
}

func (d Death) message() message {
	return message{Type: tellDied, Rank: d.Rank, Incarnation: d.Incarnation, Certain: d.Certain, Why: d.How, Record: d.Record}
}
