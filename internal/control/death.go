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
	Record      []byte // what it has left; only of the certainly dead, and complete
}

// Before the coordinator announces a death, it reads what the process still sent, which the
// kernel has kept, and waits for the launcher to say how the process ended. These bound the two.
const (
	wordsMax = farewellMax // they arrive at once, unless the machine is busy
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
	if how == "" && child == p.pid { // the launcher was faster, and is about to say so
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

// exited is the end of a process of which no more is known.
const exited = "exited"

// how returns how a process that has exited ended.
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

// die records a death and notifies all processes. s.mu is held.
func (s *Server) die(m *member, d Death) {
	d.Rank, d.Incarnation = m.rank, m.incarnation
	if d.Certain && d.Record == nil && m.local && !s.finished { // after the end no process decides anything
		s.readRecord(&d, m.peer != nil)
	}
	m.death, m.obituary = &d, d.message().line()
	m.noteDied()
	s.guard.Leave(protocol.Rank(m.rank))
	s.ending.Died(m.identity().member())
	s.disconnect(m)
	if d.Certain && m.process != nil {
		s.drop(m.process)
	}
	if s.finished || s.closing { // leaving is not a failure
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

// noteDied notes when the coordinator learned of the death, if it has not before.
func (m *member) noteDied() {
	if m.diedAt.IsZero() {
		m.diedAt = time.Now()
	}
}

// noteExits notes that processes of this host have exited, of which the coordinator is about to learn (awaitExit). Others learn of
// that from the kernel, too: what they report now comes after it. s.mu is held.
func (s *Server) noteExits() {
	for _, m := range s.members {
		if m.death == nil && m.process != nil && m.process.exited() {
			m.noteDied()
		}
	}
}

// readRecord adds what the dead process has left on this host. If that cannot be
// read, it is unknown what the process has promised, and its death counts only as
// a suspicion. A process that never announced itself has promised nothing.
func (s *Server) readRecord(d *Death, announced bool) {
	record, err := ReadRecord(s.cfg.Dir, d.Rank, d.Incarnation)
	d.Record = record
	if err != nil && (announced || !errors.Is(err, fs.ErrNotExist)) {
		d.unread(err.Error())
	}
}

// unread turns a death without the record into a suspicion.
func (d *Death) unread(why string) {
	d.Certain = false
	d.How += ", but its record cannot be read: " + why
}

// tellDeath notifies the process of the lowest rank of a death at once, since that
// process proposes the next view, and the others a little later: they learn of the death from the
// view, and the notice should not delay them in deciding it.
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
	s.deaths = append(s.deaths, line)
	s.flushWithin(deathsTime)
}

// deathsTime is how long the others wait for a death notice: a process that needs it earlier asks.
const deathsTime = 100 * time.Millisecond

// tellDeaths notifies all processes of the deaths since the last batch. s.mu is held.
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
