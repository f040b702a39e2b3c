package control

import (
	"fmt"
	"time"
)

// beatsPerSilence is how often a process is heard of in the time it may be
// silent. A pause of a third of that time is then well below half of it, seen
// from here, so that a suspicion is no reason to fence.
const beatsPerSilence = 12

// tickMax is how late silence may be noticed.
const tickMax = 100 * time.Millisecond

// watchSilence looks for silent processes. If its own timer is late, this
// process, or the whole machine, was paused: then nobody could be heard, and
// everybody is given that time on top.
func (s *Server) watchSilence() {
	every := min(s.cfg.Silence/20, tickMax)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-s.quit:
			return
		case <-ticker.C:
		}
		now := time.Now()
		late := now.Sub(last) - every
		last = now
		s.mu.Lock()
		if late > every {
			s.forgive(now, late)
		}
		for _, m := range s.members {
			s.listen(m, now)
		}
		s.mu.Unlock()
	}
}

// forgive gives everybody time in which we heard nothing.
func (s *Server) forgive(now time.Time, late time.Duration) {
	for _, m := range s.members {
		if m.heard = m.heard.Add(late); m.heard.After(now) {
			m.heard = now
		}
	}
}

// listen does what has to be done about a process that is silent.
func (s *Server) listen(m *member, now time.Time) {
	switch silent := now.Sub(m.heard); {
	case !s.awaited(m) || s.closing:
	case !m.joined:
		s.missing(m, silent)
	case s.finished:
	case m.fenced != "":
		if now.Sub(m.fencedAt) > s.cfg.Silence { // the kernel cannot end it
			s.die(m, Death{How: "fenced, but not gone: " + m.fenced})
		}
	case silent > s.cfg.Silence:
		s.emit(EventSuspected, m.rank, "incarnation", m.incarnation, "by", "coordinator", "why", "silence")
		s.fence(m, "silent for "+seconds(silent))
	}
}

// missing gives a process up that has not joined: in time, before a view went on
// without it, or before the job was over.
func (s *Server) missing(m *member, silent time.Duration) {
	switch {
	case m.removed:
		s.giveUp(m, fmt.Sprintf("never joined: view %d goes on without it", s.view.Number))
	case s.finished && silent > s.cfg.Silence:
		s.giveUp(m, "never joined: the job is over")
	case s.begun && silent > s.cfg.JoinTimeout:
		s.giveUp(m, fmt.Sprintf("never joined within %v", s.cfg.JoinTimeout))
	}
}

// giveUp takes a process that has not joined for dead; who has started it will see to it.
func (s *Server) giveUp(m *member, how string) {
	m.incarnation = max(m.incarnation, 1)
	s.die(m, Death{How: how})
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// suspected decides about a process that another one suspects. If we hear of it,
// the link between the two is at fault; if not, it is fenced.
func (s *Server) suspected(c *session, said message) {
	if said.Rank < 0 || said.Rank >= len(s.members) {
		return
	}
	m := s.members[said.Rank]
	if said.Incarnation != 0 && said.Incarnation != m.incarnation || !m.joined {
		return
	}
	silent := time.Since(m.heard)
	s.log.Info("control: suspected", "rank", m.rank, "by", c.member.rank, "why", said.Why, "silent", silent)
	s.emit(EventSuspected, m.rank, "incarnation", m.incarnation, "by", c.member.rank, "why", said.Why, "silent_seconds", silent.Seconds())
	switch {
	case m.death != nil:
		c.tellDeath(m.obituary)
	case m.fenced != "":
	case silent < s.cfg.Silence/2 && m.local && c.member.local && m.doubted(c.member.rank, s.cfg.Silence) < doubtsMax:
		c.tell(message{Type: tellAlive, Rank: m.rank}.line())
	case silent < s.cfg.Silence/2:
		s.emit(EventUnreachable, m.rank, "incarnation", m.incarnation, "from", c.member.rank)
		c.tell(Death{Rank: m.rank, Incarnation: m.incarnation, How: "unreachable from here"}.message().line())
	default:
		s.fence(m, fmt.Sprintf("silent for %s, suspected by rank %d: %s", seconds(silent), c.member.rank, said.Why))
	}
}

// doubtsMax is how often in a row a process of this host must find another one of it
// silent that is heard here: there is no network between the two that could be cut,
// and a busy machine makes many silent for a while.
const doubtsMax = 3

// doubt is what one process has said of another.
type doubt struct {
	times int
	last  time.Time
}

// doubted counts how often in a row a process was found silent by another.
func (m *member) doubted(by int, silence time.Duration) int {
	if m.doubts == nil {
		m.doubts = map[int]doubt{}
	}
	d := m.doubts[by]
	if time.Since(d.last) > 2*silence {
		d.times = 0
	}
	d.times++
	d.last = time.Now()
	m.doubts[by] = d
	return d.times
}

// fence turns a suspicion into certainty: it kills the process, and the kernel
// tells when it is dead. Where that is impossible the suspicion is passed on:
// on other hosts, and for the process we are part of ourselves.
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
