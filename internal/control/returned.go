package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/coppice-go/coppice/protocol/ending"
)

// When a job is over package ending decides. A job cannot hang for want of a view: a live
// process in the latest one gets the next, or ends because it can have none, and then it
// leaves. If nobody who lives is left in the view, the job is abandoned.

// returned takes note of a process whose tasks have returned in a view. A view before
// the one in which it resumed says nothing of its tasks now; a failure is final.
// s.mu is held.
func (s *Server) returned(m *member, said message) {
	failed := said.Why != "" && m.failure == ""
	if failed {
		m.failure, m.failedAt = said.Why, time.Now()
	}
	if said.Report {
		s.ending.Report()
	}
	s.ending.Returned(m.identity().member(), max(said.View, 1)) // the first, if it knows of none
	if said.View >= m.view {
		m.view = said.View
		if !m.returned || failed {
			m.returned = true
			s.noteReturn(m)
		}
	}
	s.settle()
}

// noteReturn tells that a process has returned, soon if it is well.
func (s *Server) noteReturn(m *member) {
	s.log.Info("control: returned", "rank", m.rank, "view", m.view, "failure", m.failure)
	s.emit(EventReturned, m.rank, "incarnation", m.incarnation, "number", m.view, "failure", m.failure)
	s.news = append(s.news, m)
	if m.failure != "" {
		s.flush()
	} else {
		s.flushSoon()
	}
}

// resumed takes note of a process that has adopted tasks in a view: it has not
// returned any more. s.mu is held.
func (s *Server) resumed(m *member, view uint64) {
	if view < m.view || s.finished || s.over {
		return
	}
	m.view = view
	if !m.returned && (s.cfg.heir == nil || m.turn > 0) { // to the coordinator before it may have said so
		return
	}
	s.flush() // the others learn of its return first
	m.returned = false
	m.turn++
	s.log.Info("control: resumed", "rank", m.rank, "view", view)
	s.emit(EventResumed, m.rank, "incarnation", m.incarnation, "number", view)
	s.tellAll(m.standing())
}

// standing is the message that tells whether a process has returned.
func (m *member) standing() message {
	told := message{Type: tellResumed, Ranks: []int{m.rank}, Incarnation: m.incarnation, Turn: m.turn}
	if m.returned {
		told.Type, told.Why = tellReturned, m.failure
	}
	return told
}

// tellReturns tells who has returned since the last batch. s.mu is held.
func (s *Server) tellReturns() {
	var well []int
	for _, m := range s.news {
		if m.failure != "" || m.turn > 0 || m.incarnation > 1 {
			s.tellAll(m.standing())
		} else {
			well = append(well, m.rank)
		}
	}
	s.news = nil
	if well != nil {
		s.tellAll(message{Type: tellReturned, Ranks: well, Incarnation: 1})
	}
}

// A process that exits with 0 before its tasks have returned has not died: its program has
// ended it, by os.Exit, and would end whoever runs the tasks next. That is a failure of
// theirs, and ends the job.

// unreturned are the tasks of a process that has joined which have not returned, for all that
// is known. The others may have noticed its end first, and a view have removed it.
func (s *Server) unreturned(m *member) []int {
	switch {
	case !m.joined || m.returned:
		return nil
	case m.removed:
		return m.estate
	case !s.inView(m) || s.idle(m):
		return nil
	case s.view == nil || s.view.Owners == nil:
		return []int{m.rank}
	}
	return s.view.Tasks(m.rank, m.incarnation)
}

// checkQuit ends the job if a dead process has exited with 0 before its tasks had returned,
// unless it was asked to end. s.mu is held.
func (s *Server) checkQuit(m *member) {
	if m.death.How != Ending(0, 0) || len(m.unreturned) == 0 || m.failure != "" || s.stopping != nil || s.finished || s.closing {
		return
	}
	why := fmt.Sprintf("exited with 0 before %s returned", taskList(m.unreturned))
	m.failure, m.failedAt, m.returned, m.quit = why, time.Now(), true, m.unreturned
	s.noteReturn(m)
	s.stop(fmt.Sprintf("process %d %s", m.rank, why))
}

// exitUnknown reports whether the launcher has yet to say how one of its children ended. If that
// child exited with 0 before its tasks returned, the job fails (checkQuit). The other processes may
// notice the exit first, and remove the child in a view. If it is still alive, the coordinator
// fences it after the silence, and then the job no longer waits for it. s.mu is held.
func (s *Server) exitUnknown() bool {
	for _, m := range s.members {
		for life := range m.lives() {
			switch {
			case life.child == 0 || life.child != life.pid: // the launcher started something else, or nothing
			case life.death == nil && life.removed && life.fenced == "" && len(life.estate) > 0 && !life.returned,
				life.death != nil && life.death.How == exited && len(life.unreturned) > 0:
				return true
			}
		}
	}
	return false
}

// taskList names tasks.
func taskList(tasks []int) string {
	if len(tasks) == 1 {
		return "task " + listed(tasks)
	}
	return "tasks " + listed(tasks)
}

// Abandoned says why the job has ended, or is about to, although not all of its tasks have
// returned; "": they have, or no process has joined.
func (s *Server) Abandoned() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun || s.finished {
		return s.forlorn
	}
	return "the job has not finished"
}

// noteLoss takes note of a task that cannot be run again, if that is what a process tells.
func (s *Server) noteLoss(e Event) {
	task, _ := e.Attrs["task"].(json.Number)
	why, _ := e.Attrs["why"].(string)
	n, err := task.Int64()
	if e.Type != EventLost || err != nil || s.finished {
		return
	}
	if s.lost == nil {
		s.lost = map[int]string{}
	}
	// Who has heard it from a task that failed for want of it tells of that, too.
	if known, told := s.lost[int(n)]; !told || len(why) < len(known) {
		s.lost[int(n)] = why
	}
}

// Lost are the tasks that cannot be run again, and why.
func (s *Server) Lost() map[int]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.lost)
}

// settle finishes the job if it can. s.mu is held.
func (s *Server) settle() {
	if s.finished || s.closing {
		return
	}
	verdict := s.ending.Verdict()
	if verdict == ending.Going || s.exitUnknown() {
		return
	}
	s.flush()
	if inside := s.cfg.self != (Identity{}); inside && verdict == ending.Over && !s.told && !s.ending.Known() {
		s.tellOver()
		return
	}
	s.finished = true
	for _, m := range s.members {
		if !m.joined { // it is not awaited for as long as before
			m.heard = time.Now()
		}
	}
	if s.begun && verdict == ending.Abandoned {
		s.forlorn = "all processes that had tasks have ended"
	}
	s.log.Info("control: finished", "forlorn", s.forlorn)
	s.emit(EventFinished, -1)
	s.tellAll(s.end())
	close(s.done)
}

// tellOver tells the processes that the job is over, and gives them some time to say that they know it:
// another coordinator can learn it from them if this one dies. s.mu is held.
func (s *Server) tellOver() {
	if s.over {
		return
	}
	s.over = true
	s.tellAll(message{Type: tellOver, View: s.ending.Latest()})
	time.AfterFunc(s.cfg.Silence, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = true
		s.settle()
	})
}

// end is the message that tells of the job's, and of the view in which every task had returned.
// A process that has not acted on it yet may take the others, which exit, for dead: what it does
// in a later view is of no use to anybody.
func (s *Server) end() message {
	return message{Type: tellFinished, Why: s.forlorn, View: s.ending.Latest()}
}
