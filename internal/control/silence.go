package control

import (
	"fmt"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/suspicion"
)

// beatsPerSilence is how often a process on another host, or one that cannot beat in the
// page, is heard of in the time for which it may be silent.
const beatsPerSilence = 6

// watchSilence looks for silent processes. suspicion.Guard decides which of them are fenced;
// for processes on other hosts their peers decide, and the coordinator only answers questions.
func (s *Server) watchSilence() {
	interval := time.Duration(s.guard.Every())
	began, last := time.Now(), time.Now()
	for now := range every(s.ctx, interval) {
		s.mu.Lock()
		if late := now.Sub(last) - interval; late > interval {
			s.forgive(now, late)
		}
		last = now
		s.look(now)
		for _, v := range s.guard.Tick(protocol.Time(now.Sub(began)), s.inspect) {
			if m := s.members[v.Rank]; !s.finished && !s.closing && m.fenced == "" && m.process != nil {
				s.emit(EventSuspected, m.rank, "incarnation", m.incarnation, "by", "coordinator", "why", v.Why)
				m.quiet = true
				s.fence(m, v.Why)
			}
		}
		s.bury()
		for _, m := range s.members {
			s.listen(m, now)
		}
		s.mu.Unlock()
	}
}

// forgive gives processes that have not joined the time in which the coordinator did not run.
func (s *Server) forgive(now time.Time, late time.Duration) {
	for _, m := range s.members {
		if m.heard = m.heard.Add(late); m.heard.After(now) {
			m.heard = now
		}
	}
}

// look records which processes have beaten in the page, and whether all could have begun.
func (s *Server) look(now time.Time) {
	begun := s.begun
	for _, m := range s.members {
		if m.death != nil || !m.joined {
			begun = begun && (!s.awaited(m) || m.removed || now.Sub(m.heard) > s.joinTimeout(m))
			continue
		}
		if m.process != nil && m.process.own() {
			s.beaten(m, now)
		}
		if s.page != nil && m.local {
			if beats, _ := s.page.Beats(m.rank, m.incarnation); beats != m.beats {
				m.beats = beats
				s.beaten(m, now)
			}
		}
	}
	if begun {
		s.guard.Begin()
	}
}

func (s *Server) beaten(m *member, now time.Time) {
	m.heard = now
	s.guard.Beat(protocol.Rank(m.rank))
}

// inspect asks the kernel about a silent process of this host.
func (s *Server) inspect(rank protocol.Rank) suspicion.Evidence {
	m := s.members[rank]
	if m.process == nil {
		return suspicion.Unknown
	}
	before := m.activity
	m.activity = detect.Inspect(m.process.pid)
	switch {
	case !m.activity.Known:
		return suspicion.Unknown
	case m.activity.Working(before):
		return suspicion.Working
	case m.activity.Stopped:
		return suspicion.Stopped
	}
	return suspicion.Resting
}

// silent returns for how long a process has not been heard, as far as that is its own doing.
func (s *Server) silent(m *member) time.Duration {
	if m.process != nil && m.joined {
		return time.Duration(s.guard.Silent(protocol.Rank(m.rank)))
	}
	return time.Since(m.heard)
}

// hears reports whether a process is heard here.
func (s *Server) hears(c *session, said message) {
	m := s.members[said.Rank]
	switch {
	case m.incarnation != said.Incarnation || !m.joined:
	case m.death != nil:
		c.tellDeath(m.obituary)
	default:
		silent := s.silent(m)
		before := m.activity
		hears := silent <= s.cfg.Silence/4 || m.process != nil && s.inspect(protocol.Rank(m.rank)) == suspicion.Working
		if before.Stopped { // the guard finds out whether it has run since
			m.activity = before
		}
		c.tell(message{Type: tellHears, Rank: m.rank, Hears: hears, Silence: silent}.line())
	}
}

// listen does what has to be done about an absent process.
func (s *Server) listen(m *member, now time.Time) {
	switch {
	case s.closing:
	case s.lingers(m) && now.Sub(m.removedAt) > s.cfg.Silence:
		s.execute(m, nil, s.removal(m), fmt.Sprintf("view %d goes on without it", s.view.Number))
	case !s.awaited(m):
	case !m.joined:
		s.missing(m, now.Sub(m.heard))
	case s.finished:
	case m.peer == nil && m.process == nil && !s.gathering && now.Sub(m.heard) > s.cfg.JoinTimeout: // no other process knows of it
		s.die(m, Death{How: fmt.Sprintf("has not announced itself, and is gone for %v", s.cfg.JoinTimeout)})
	case m.fenced != "":
		if now.Sub(m.fencedAt) > s.cfg.Silence { // the kernel, or its agent, cannot end it
			s.die(m, Death{How: "fenced, but not gone: " + m.fenced})
		}
	case m.removed && now.Sub(m.removedAt) > s.cfg.Silence: // it had time to learn of its removal, and to end
		s.execute(m, nil, s.removal(m), fmt.Sprintf("view %d goes on without it", s.view.Number))
		s.settle()
	}
}

// lingers reports whether a process on another host that was taken for dead, and that a view has removed since, may still run: its
// agent has not been given an order that proves anything.
func (s *Server) lingers(m *member) bool {
	return m.death != nil && !m.death.Certain && m.exit == "" && m.removed && m.joined && m.process == nil && m.fenced == "" && s.cfg.Kill != nil && !s.finished
}

// missing gives up on a process that has not joined in time, before a view continued
// without it, or before the job was over.
func (s *Server) missing(m *member, silent time.Duration) {
	switch {
	case s.gathering && s.begun && silent > s.cfg.JoinTimeout:
		s.gathered(true)
	case s.gathering:
	case m.removed && s.cfg.heir != nil:
		s.giveUp(m, fmt.Sprintf("view %d goes on without it", s.view.Number))
	case m.removed:
		s.giveUp(m, fmt.Sprintf("never joined: view %d goes on without it", s.view.Number))
	case s.finished && silent > s.cfg.Silence:
		s.giveUp(m, "never joined: the job is over")
	case s.begun && silent > s.joinTimeout(m):
		s.giveUp(m, fmt.Sprintf("never joined within %v", s.joinTimeout(m)))
	}
}

// joinTimeout is how long an absent process may take to join. One that a predecessor knew comes soon.
func (s *Server) joinTimeout(m *member) time.Duration {
	if s.cfg.heir != nil && m.incarnation > 0 {
		return max(5*s.cfg.Silence, lostMin)
	}
	return s.cfg.JoinTimeout
}

// giveUp takes a process that has not joined for dead; the launcher that started it ends it.
func (s *Server) giveUp(m *member, how string) {
	if m.incarnation == 0 {
		m.incarnation = 1
		s.noteBegun(m.rank)
	}
	s.die(m, Death{How: how})
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// suspected records that a process suspects another one. If both are on this host,
// the coordinator can see whether the suspect is alive; between hosts the members of the view decide.
func (s *Server) suspected(c *session, said message) {
	m := s.members[said.Rank]
	if said.Incarnation != 0 && said.Incarnation != m.incarnation || !m.joined {
		return
	}
	silent := s.silent(m)
	s.log.Info("control: suspected", "rank", m.rank, "by", c.member.rank, "why", said.Why, "silent", silent)
	s.emit(EventSuspected, m.rank, "incarnation", m.incarnation, "by", c.member.rank, "why", said.Why, "silent_seconds", silent.Seconds())
	switch {
	case m.death != nil:
		c.tellDeath(m.obituary)
	case m.fenced != "" || !m.local || !c.member.local:
	case m.doubted(c.member.rank, s.cfg.Silence) < doubtsMax:
		c.tell(message{Type: tellAlive, Rank: m.rank}.line())
	default:
		s.emit(EventUnreachable, m.rank, "incarnation", m.incarnation, "from", c.member.rank)
		c.tell(Death{Rank: m.rank, Incarnation: m.incarnation, How: "unreachable from here"}.message().line())
	}
}

// doubtsMax is how often in a row a process of this host must report another live process
// of this host. There is no network between the two that could be cut, and a busy machine
// makes many processes silent for a while.
const doubtsMax = 3

// doubt is what one process has reported about another.
type doubt struct {
	times int
	last  time.Time
}

// doubted counts how often in a row a process was reported by another.
func (m *member) doubted(by int, silence time.Duration) int {
	if m.doubts == nil {
		m.doubts = map[int]doubt{}
	}
	d := m.doubts[by]
	if time.Since(d.last) > 6*silence {
		d.times = 0
	}
	d.times++
	d.last = time.Now()
	m.doubts[by] = d
	return d.times
}

// inherit records which processes now do the work of a process that was fenced for silence:
// the same work may make them fall silent, too.
func (s *Server) inherit(life *member, v *View) {
	if !life.quiet {
		return
	}
	for _, task := range life.estate {
		if task < len(v.Owners) && v.Owners[task] >= 0 && v.Owners[task] < len(s.members) {
			s.members[v.Owners[task]].quiet = true
			s.guard.Inherit(protocol.Rank(v.Owners[task]))
		}
	}
}

// fence turns a suspicion into certainty: it kills the process, and the kernel
// reports its death. Where that is impossible, on other hosts and for the coordinator's own process,
// fence passes the suspicion on.
func (s *Server) fence(m *member, why string) {
	if m.process == nil || m.process.own() {
		s.die(m, Death{How: why})
		return
	}
	s.noteFence(m, why)
	if err := m.process.kill(); err != nil && !m.process.exited() {
		s.log.Warn("control: cannot kill", "rank", m.rank, "error", err)
	}
}

func (s *Server) noteFence(m *member, why string) {
	m.fenced, m.fencedAt = why, time.Now()
	s.log.Warn("control: fenced", "rank", m.rank, "incarnation", m.incarnation, "pid", m.pid, "why", why)
	s.emit(EventFenced, m.rank, "incarnation", m.incarnation, "why", why)
}
