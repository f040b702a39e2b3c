package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The end of a job. A process has returned in a view when all tasks that it owns in
// that view have. The tasks of the dead are not done: the view that removes the dead
// gives them to others, and one of these that had returned is at work again. So the
// job has finished when
//
//  1. no dead process is in the latest view, unless nobody in it lives, and
//  2. every live process in it has returned in that view, or in one before it since
//     which nobody was removed and no task was given to another, and none in a later one, of
//     which nobody has told.
//
// Who joined and owns nothing, and who is in no view any more, is not asked for the
// second. Where nothing is adopted the dead hold up nothing: every live process has
// to return, once.
//
// A job cannot hang here for want of a view: a live process in the latest one gets
// the next, or ends because it can have none, and then it leaves. Nobody who lives is
// left in the view in the end, and the first point holds.

// returned takes note of a process whose tasks have returned in a view. A view before
// the one in which it resumed says nothing of its tasks now; a failure is final.
// s.mu is held.
func (s *Server) returned(m *member, said message) {
	failed := said.Why != "" && m.failure == ""
	if failed {
		m.failure, m.failedAt = said.Why, time.Now()
	}
	s.report = s.report || said.Report
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
	if view < m.view || s.finished {
		return
	}
	m.view = view
	if !m.returned {
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

// taskList names tasks.
func taskList(tasks []int) string {
	words := strings.Trim(strings.ReplaceAll(fmt.Sprint(tasks), " ", ", "), "[]")
	if len(tasks) == 1 {
		return "task " + words
	}
	return "tasks " + words
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
	if e.Type != EventLost || err != nil {
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
	for _, m := range s.members {
		if s.awaited(m) && (!s.over(m) || s.ahead(m)) {
			return
		}
	}
	if !s.report && s.bereaved() {
		return
	}
	s.flush()
	s.finished = true
	for _, m := range s.members {
		if !m.joined { // it is not awaited for as long as before
			m.heard = time.Now()
		}
	}
	if s.begun && !s.report && s.deserted() {
		s.forlorn = "all processes that had tasks have ended"
	}
	s.log.Info("control: finished", "forlorn", s.forlorn)
	s.emit(EventFinished, -1)
	s.tellAll(s.end())
	close(s.done)
}

// end is the message that tells of the job's.
func (s *Server) end() message { return message{Type: tellFinished, Why: s.forlorn} }

// over tells whether a live process has nothing left to do, for all that is known.
func (s *Server) over(m *member) bool {
	current := s.report || m.view >= s.removal || !s.inView(m)
	return s.idle(m) || m.returned && current
}

// ahead tells whether a process has returned in a view of which nobody has told yet: tasks
// may have moved there.
func (s *Server) ahead(m *member) bool {
	latest := uint64(1)
	if s.view != nil {
		latest = s.view.Number
	}
	return m.returned && m.view > latest
}

// bereaved tells whether a view is to come: the latest has a dead process in it, and a
// live one.
func (s *Server) bereaved() bool {
	dead, live := false, false
	for _, m := range s.members {
		live = live || s.awaited(m) && s.inView(m)
		for life := range m.lives() {
			dead = dead || life.death != nil && s.inView(life)
		}
	}
	return dead && live
}

// deserted tells whether nobody who lives is in the latest view. Who has joined since may be
// in a later one, of which nobody has told: its tasks are not done.
func (s *Server) deserted() bool {
	return !slices.ContainsFunc(s.members, func(m *member) bool { return s.awaited(m) && s.inView(m) })
}
