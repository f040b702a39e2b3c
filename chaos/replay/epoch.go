package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// epochLog is what a task has sent to other processes in an epoch.
type epochLog struct {
	*recovery.Log
	epoch uint64
}

// log returns the log of the present epoch.
func (t *task) log() *recovery.Log {
	n := len(t.logs)
	if n == 0 || t.logs[n-1].epoch != t.epoch {
		l := t.memory.logs.one()
		l.Reset(headLen)
		l.Room = t.memory.room
		t.logs = append(t.logs, epochLog{l, t.epoch})
		n++
	}
	return t.logs[n-1].Log
}

// Errors of epochs.
var (
	errBalance   = errors.New("messages that were sent before a Save were not received before it")
	errAhead     = errors.New("an epoch is committed that the task has not saved")
	errOtherPast = errors.New("a task that is run again comes to its first Save with other operations aborted than when it saved")
)

// drop drops the log, the broadcasts and the streams of the epochs before the given one.
func (t *task) drop(epoch uint64) {
	t.logs = slices.DeleteFunc(t.logs, func(l epochLog) bool { return 0 < l.epoch && l.epoch < epoch })
	t.accounts = slices.DeleteFunc(t.accounts, func(a *ahead) bool { return 0 < a.epoch && a.epoch < epoch })
	t.casts = slices.DeleteFunc(t.casts, func(c *cast) bool { return 0 < c.name.Epoch && uint64(c.name.Epoch) < epoch })
	t.streams = slices.DeleteFunc(t.streams, func(st *stream) bool { return 0 < st.epoch && st.epoch < epoch })
}

// before does what must precede the task's present operation: a Save, or Once. ok reports that it is done;
// otherwise moved reports whether it made a step.
func (j *Job) before(s *State, t *task) (moved, ok bool) {
	g := j.program
	switch {
	case int(t.epoch) < g.Saves() && t.op == g.starts[t.epoch+1]:
		return j.save(s, t), false
	case t.op < len(g.Calls) && g.Calls[t.op].Once && !t.drawn:
		return j.once(s, t), false
	}
	return false, true
}

// save makes the next step of a Save.
func (j *Job) save(s *State, t *task) bool {
	if t.saving {
		return false
	}
	if !t.first && t.epoch == 0 {
		epoch, here, known := s.rules.Resume(t.number)
		k := recovery.Key{Task: t.number, Epoch: epoch}
		switch {
		case !known:
			return false
		case epoch > 0 && here:
			j.resume(s, t, s.copy(k))
			return true
		case epoch > 0 && j.files[k] != nil:
			j.resume(s, t, j.files[k])
			return true
		case epoch > 0:
			j.giveUp(s, &Copy{Key: k})
			return true
		}
	}
	t.saving = true
	c := t.state()
	if f := j.files[c.Key]; j.Stored() && (f == nil || f.attempt <= c.attempt) {
		j.files[c.Key] = c
	}
	s.keep(c)
	s.rules.Kept(c.Key, j.Stored())
	s.rules.Save(t.number, c.Epoch, t.balance)
	j.carryOut(s)
	return true
}

// goOn lets the task continue from what it has saved.
func (t *task) goOn(committed uint64, balance int64) {
	switch {
	case committed > t.epoch+1:
		t.err = fmt.Errorf("%w: %d in %d", errAhead, committed, t.epoch)
	case balance != 0:
		t.err = fmt.Errorf("%w: %d", errBalance, balance)
	}
	t.enter(committed)
}

// enter enters an epoch, where all numbers start again.
func (t *task) enter(epoch uint64) {
	t.epoch, t.saving = epoch, false
	t.count, t.balance = 0, 0
}

// resume lets a task that is run again continue from what is committed.
func (j *Job) resume(s *State, t *task, c *Copy) {
	// A file may outlive every process that knows what was aborted before the first Save.
	if !j.Stored() && !t.same(c, j.program.starts[1]) {
		t.err = fmt.Errorf("%w: %v, not %v", errOtherPast, t.aborted, c.aborted)
		return
	}
	t.take(c)
	t.enter(c.Epoch)
	t.op = j.program.starts[c.Epoch]
	j.entered(s, t)
	s.rules.Resumed(t.number, c.Epoch)
	s.event(Resumed, c)
}

// same reports whether the operations before the first Save that are aborted for this attempt are those that
// were aborted for the attempt that saved a state: what a program computed before the Save need not be in the
// state.
func (t *task) same(c *Copy, first int) bool {
	n := len(t.aborted)
	return len(c.aborted) >= n && slices.Equal(c.aborted[:n], t.aborted) && (len(c.aborted) == n || c.aborted[n] >= first)
}

// Standing describes where a task that the process runs is.
type Standing struct {
	Epoch   uint64
	Saving  bool // it waits in Save
	Behind  bool // it is run again, and has not come to its first Save
	First   bool // it is not run again
	Drawing bool // it waits in Once
}

// Stands returns where a task is, if the process runs it.
func (s *State) Stands(task protocol.Rank) (Standing, bool) {
	t := s.find(task)
	if t == nil || !s.called {
		return Standing{}, false
	}
	g := s.job.program
	drawing := !t.saving && !t.begun && t.op < len(g.Calls) && g.Calls[t.op].Once && !t.drawn
	return Standing{t.epoch, t.saving, !t.first && t.epoch == 0 && !t.saving, t.first, drawing}, true
}
