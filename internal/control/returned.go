package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/ending"
)

// Package ending decides when a job is over. A job cannot hang because a view is missing: a live
// process in the latest view gets the next view, or ends because there can be none, and then it
// leaves. If no live process is left in the view, the job is abandoned.

// returned records that the tasks of a process have returned in a view. A view before
// the one in which the process resumed says nothing about its tasks now; a failure is final.
// s.mu is held.
func (s *Server) returned(m *member, said message) {
	failed := said.Why != "" && m.failure == ""
	if failed {
		s.noteExits()
		m.failure, m.failedAt = said.Why, time.Now()
	}
	if said.Report {
		s.ending.Report()
	}
	s.ending.Returned(m.identity().member(), max(said.View, 1)) // the first view, if the process knows of none
	if said.View >= m.view {
		m.view = said.View
		if !m.returned || failed {
			m.returned = true
			s.noteReturn(m)
		}
	}
	s.settle()
}

// noteReturn reports that a process has returned, with the next batch if there was no error.
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

// resumed records that a process has adopted tasks in a view: it no longer counts as
// returned. s.mu is held.
func (s *Server) resumed(m *member, view uint64) {
	if view < m.view || s.finished || s.over {
		return
	}
	m.view = view
	if !m.returned && (s.cfg.heir == nil || m.turn > 0) { // the process may have told the previous coordinator
		return
	}
	s.flush() // the others learn of its return first
	m.returned = false
	m.turn++
	s.log.Info("control: resumed", "rank", m.rank, "view", view)
	s.emit(EventResumed, m.rank, "incarnation", m.incarnation, "number", view)
}

// standing returns the message that says that a process has returned.
func (m *member) standing() message {
	return message{Type: tellReturned, Ranks: []int{m.rank}, Incarnation: m.incarnation, Turn: m.turn, Why: m.failure}
}

// tellReturns reports the processes that have returned since the last batch. s.mu is held.
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
// ended it, by os.Exit, and would end any process that runs the tasks next. That is a failure of
// the tasks, and ends the job.

// unreturned returns the tasks of a process that has joined which, as far as is known, have not
// returned. The others may have noticed the end of the process first, and a view may have removed it.
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

// exitUnknown reports whether the launcher has not said how one of its children ended. If that
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

// Outcome is what a coordinator knows of a job's end, beside the state of each process.
type Outcome struct {
	View      *View              // the latest that a process reported; nil: none
	Abandoned string             // why the job has ended, or is about to, although not all of its tasks have returned; "": they have, or no process has joined
	Lost      map[int]string     // the tasks that cannot be run again, and why
	Removed   map[Identity][]int // the processes that a view has removed, with the tasks that each owned then
	TakenUp   bool               // the job continues with what an earlier run of it has stored
}

// Outcome returns what is known now.
func (s *Server) Outcome() Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Outcome{View: s.view, Abandoned: s.forlorn, Lost: maps.Clone(s.lost), Removed: map[Identity][]int{}, TakenUp: s.taken}
	if s.begun && !s.finished {
		o.Abandoned = "the job has not finished"
	}
	for _, m := range s.members {
		for life := range m.lives() {
			if life.removed {
				o.Removed[life.identity()] = life.estate
			}
		}
	}
	return o
}

// noteLoss records a task that cannot be run again, if the event reports one.
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
	// A process that knows it from a task that failed because of the loss reports it, too.
	if known, told := s.lost[int(n)]; !told || len(why) < len(known) {
		s.lost[int(n)] = why
	}
}

// settle finishes the job if it can. s.mu is held.
func (s *Server) settle() {
	if s.finished || s.closing {
		return
	}
	if s.ending.Verdict() == ending.Going || s.exitUnknown() {
		return
	}
	s.flush()
	switch s.ending.Step(s.now()) {
	case ending.TellOver:
		s.tellOver()
		return
	case ending.TellKnown:
		s.tellOver() // a successor that learned of the end from another process may begin here
		s.tellKnown()
		return
	}
	s.finished = true
	for _, m := range s.members {
		if !m.joined { // from now on it is not awaited for as long as before
			m.heard = time.Now()
		}
	}
	if s.begun && s.ending.Verdict() == ending.Abandoned {
		s.forlorn = "all processes that had tasks have ended"
	}
	s.log.Info("control: finished", "forlorn", s.forlorn)
	s.emit(EventFinished, -1)
	s.tellAll(s.end())
	close(s.done)
}

// tellOver tells the processes that the job is over, and gives them some time to confirm that they know it:
// a successor can learn it from them if this coordinator dies. s.mu is held.
func (s *Server) tellOver() {
	if s.over {
		return
	}
	s.over = true
	s.tellAll(message{Type: tellOver, View: s.ending.Latest()})
	time.AfterFunc(time.Duration(s.ending.Until()-s.now()), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settle()
	})
}

// now is the time since the coordinator began.
func (s *Server) now() protocol.Time { return protocol.Time(time.Since(s.began)) }

// tellKnown tells the processes that all know that the job is over. s.mu is held.
func (s *Server) tellKnown() {
	line := message{Type: tellOver, View: s.ending.Latest(), Known: true}.line()
	for session := range s.sessions {
		if !session.known {
			session.known = true
			session.tell(line)
		}
	}
}

// end returns the message that reports the job's end, and the view in which every task had returned.
// A process that has not acted on it may take the others, which exit, for dead: nothing needs what it
// does in a later view.
func (s *Server) end() message {
	return message{Type: tellFinished, Why: s.forlorn, View: s.ending.Latest()}
}
