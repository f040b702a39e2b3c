package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Epochs (docs/decisions/2026-11-16-epochs.md). A task that calls Save has copies of its
// state made (copy.go), and waits until all tasks have (sweep.go). Then the epoch is
// committed: what it says goes for everybody, and what was kept of the epoch before is
// dropped. The rule:
//
//  1. Messages carry their epoch, and operations are numbered anew in each. What comes
//     for an epoch to come is kept.
//  2. A task has saved when enough processes of the present view have said that they
//     have its state. A process has when all its tasks have, and says so anew in each
//     view. One of which a task is run again has not, before that task has come as far.
//  3. Who knows that an epoch is committed goes on from it, and drops the log, the
//     records of aborts and the copies of those before, but not of epoch 0.
//  4. A task that is run again runs from the top. At its first Save it waits until its
//     process knows what is committed as of the present view. If that is nothing, it
//     saves as the others do. Otherwise it goes on from the state of that epoch, of
//     which it is told by those who have it: it waits for it until all have said their
//     word, as of the present view. If then nobody has it, the task is lost.

// epochs is a process's part in them.
type epochs struct {
	sweep     Sweep
	committed uint64 // as far as was acted on it
	wish      uint64 // the epoch for which a view was asked that moves tasks
	copies    []replica
	drawn     []*Copy   // values of Once from which something may follow that is known here
	loss      *Copy     // the state or value that nobody has; nil: none
	events    []Message // to be delivered
}

// epochLog is what a task has sent to other processes in an epoch.
type epochLog struct {
	*Log
	epoch uint64
}

// log is that of the present epoch.
func (t *task) log() *Log {
	n := len(t.logs)
	if n == 0 || t.logs[n-1].epoch != t.epoch {
		t.logs = append(slices.Clip(t.logs), epochLog{NewLog(headLen), t.epoch})
		n++
	}
	return t.logs[n-1].Log
}

// What goes wrong with epochs.
var (
	errBalance   = errors.New("messages that were sent before a Save were not received before it")
	errAhead     = errors.New("an epoch is committed that the task has not saved")
	errOtherPast = errors.New("a task that is run again comes to its first Save with other operations aborted than when it saved")
)

// initEpochs begins in the first view, or outside of it.
func (s *State) initEpochs(v *membership.View) {
	s.epochs = epochs{}
	switch {
	case !s.job.program.keeps():
	case v == nil:
		s.epochs.sweep.Init(s.self, 0, nil)
	default:
		s.epochs.sweep.Init(s.self, v.Number, ids(v))
		s.hold()
	}
}

func ids(v *membership.View) (all []protocol.Rank) {
	for _, m := range v.Members {
		all = append(all, m.ID)
	}
	return all
}

// openEpochs begins anew in the view that has opened.
func (j *Job) openEpochs(s *State) {
	if !j.program.keeps() {
		return
	}
	s.epochs.wish = 0
	s.epochs.sweep.Commit(s.view.Epoch)
	s.epochs.sweep.NewView(s.view.Number, ids(s.view))
	s.hold()
	if s.epochs.loss != nil {
		s.spreadLoss()
	}
}

// receiveEpoch takes a message that has to do with epochs.
func (j *Job) receiveEpoch(s *State, from membership.Member, m Message) {
	switch m.Kind {
	case Sweeping:
		s.epochs.sweep.Receive(from.ID, m.Epoch.Sweep)
	case Keep:
		s.store(m.Epoch.Copy)
		s.mail(from.ID, Message{Kind: Kept, Epoch: m.Epoch})
	case Kept:
		s.has(m.Epoch.Copy, from)
	case Have:
		s.store(m.Epoch.Copy)
		s.has(m.Epoch.Copy, from)
	case Loss:
		s.lose(m.Epoch.Copy)
	}
}

// workEpochs does what there is to do for epochs; what other processes are told comes
// after the records of aborts that it may depend on.
func (j *Job) workEpochs(s *State) protocol.Action[Message] {
	if !j.program.keeps() {
		return protocol.Action[Message]{Kind: protocol.Idle}
	}
	e := &s.epochs
	s.remake()
	s.say()
	s.commit()
	if len(e.events) > 0 {
		m := e.events[0]
		e.events = e.events[1:]
		return protocol.Action[Message]{Kind: protocol.Deliver, Msg: m}
	}
	if a := s.deliver(); a.Kind != protocol.Idle {
		return a
	}
	if to, m, ok := e.sweep.Next(); ok {
		return protocol.Action[Message]{Kind: protocol.Send, To: to, Msg: Message{Kind: Sweeping, Epoch: &EpochMessage{Sweep: m}}}
	}
	return protocol.Action[Message]{Kind: protocol.Idle}
}

// say tells the sweep what all tasks of this process have saved.
func (s *State) say() {
	epoch, balance := uint64(Idle), int64(0)
	for _, t := range s.tasks {
		epoch = min(epoch, s.savedBy(t))
		balance += t.balance
	}
	s.epochs.sweep.Save(epoch, balance)
}

// savedBy is the epoch that a task has saved, in the present view.
func (s *State) savedBy(t *task) uint64 {
	if t.saving && s.enough(s.copy(t.number, t.epoch+1, 0)) {
		return t.epoch + 1
	}
	return t.epoch
}

// commit acts on what is committed.
func (s *State) commit() {
	e := &s.epochs
	c, _ := e.sweep.Committed()
	if c <= e.committed {
		return
	}
	e.committed = c
	for _, t := range s.tasks {
		t.drop(c)
	}
	e.copies = slices.DeleteFunc(slices.Clone(e.copies), func(r replica) bool { return e.dropped(r.Epoch) })
	e.drawn = slices.DeleteFunc(slices.Clone(e.drawn), func(c *Copy) bool { return e.dropped(c.Epoch) })
	s.records = slices.DeleteFunc(slices.Clone(s.records), func(r *Frame) bool { return e.dropped(uint64(r.Epoch)) })
}

// dropped tells whether nothing is kept of an epoch any more.
func (e *epochs) dropped(epoch uint64) bool { return 0 < epoch && epoch < e.committed }

// drop drops the log of the epochs before one.
func (t *task) drop(epoch uint64) {
	t.logs = slices.DeleteFunc(slices.Clone(t.logs), func(l epochLog) bool { return 0 < l.epoch && l.epoch < epoch })
}

// before does what a task has to do before its present operation: a Save, or Once. ok:
// that is done; otherwise moved tells whether it made a step.
func (j *Job) before(s *State, t *task) (moved, ok bool) {
	g := j.program
	switch {
	case !g.keeps() || t.returned || t.begun:
		return false, true
	case int(t.epoch) < g.Saves() && t.op == g.starts[t.epoch+1]:
		return j.save(s, t), false
	case t.op < len(g.Calls) && g.Calls[t.op].Once && !t.drawn:
		return s.once(t), false
	}
	return false, true
}

// save makes the next step of a Save.
func (j *Job) save(s *State, t *task) bool {
	c, balance := s.epochs.sweep.Committed()
	if t.saving {
		return t.goOn(c, balance)
	}
	if !t.first && t.epoch == 0 {
		if !s.epochs.sweep.Known() {
			return false
		}
		if c > 0 {
			return j.resume(s, t, c)
		}
	}
	t.saving = true
	s.store(t.state())
	return true
}

// goOn lets the task go on if what it has saved is committed.
func (t *task) goOn(committed uint64, balance int64) bool {
	switch {
	case committed <= t.epoch:
		return false
	case committed > t.epoch+1:
		t.err = fmt.Errorf("%w: %d in %d", errAhead, committed, t.epoch)
	case balance != 0:
		t.err = fmt.Errorf("%w: %d", errBalance, balance)
	}
	t.enter(committed)
	return true
}

// enter enters an epoch: everything is numbered anew.
func (t *task) enter(epoch uint64) {
	t.epoch, t.saving = epoch, false
	t.count, t.balance = 0, 0
}

// resume lets a task that is run again go on from what is committed, if it is here.
func (j *Job) resume(s *State, t *task, epoch uint64) bool {
	r := s.copy(t.number, epoch, 0)
	switch {
	case r != nil && !t.same(r.Copy, j.program.starts[1]):
		t.err = fmt.Errorf("%w: %v, not %v", errOtherPast, t.aborted, r.aborted)
	case r != nil:
		t.take(r.Copy)
		t.enter(r.Epoch)
		t.op = j.program.starts[r.Epoch]
		s.event(Resumed, &EpochMessage{Copy: r.Copy, View: s.view.Number})
	case s.heard():
		s.giveUp(&Copy{Task: t.number, Epoch: epoch})
	default:
		return false
	}
	return true
}

// same reports whether the operations before the first Save that are aborted for this attempt are
// those that were for the one which saved a state: what a program computed before it need not be in it.
func (t *task) same(c *Copy, first int) bool {
	n := len(t.aborted)
	return len(c.aborted) >= n && slices.Equal(c.aborted[:n], t.aborted) && (len(c.aborted) == n || c.aborted[n] >= first)
}

// giveUp loses a task of this process.
func (s *State) giveUp(c *Copy) {
	s.lose(c)
	s.event(Loss, &EpochMessage{Copy: s.epochs.loss, View: s.view.Number})
}

// lose takes note that a task is lost, and tells all: none goes on.
func (s *State) lose(c *Copy) {
	if s.epochs.loss != nil {
		return
	}
	s.epochs.loss = c
	if s.view != nil {
		s.spreadLoss()
	}
}

func (s *State) spreadLoss() {
	for _, m := range s.view.Members {
		s.mail(m.ID, Message{Kind: Loss, Epoch: &EpochMessage{Copy: s.epochs.loss}})
	}
}

// event has the driver told of something.
func (s *State) event(k Kind, m *EpochMessage) {
	s.epochs.events = append(slices.Clip(s.epochs.events), Message{Kind: k, Epoch: m})
}

// Lost is the state or value that nobody has, as far as the process knows; nil: none.
func (s *State) Lost() *Copy { return s.epochs.loss }

// Standing is where a task is that the process runs.
type Standing struct {
	Epoch  uint64
	Saving bool // it waits in Save
	Behind bool // it is run again, and has not come to its first Save
}

// Stands tells where a task is, if the process runs it.
func (s *State) Stands(task protocol.Rank) (Standing, bool) {
	t := s.find(task)
	if t == nil || !s.called {
		return Standing{}, false
	}
	return Standing{t.epoch, t.saving, !t.first && t.epoch == 0 && !t.saving}, true
}

func (e *epochs) clone() epochs {
	c := *e
	c.sweep = e.sweep.clone()
	c.copies = slices.Clone(e.copies)
	return c
}

// clone returns a copy that shares nothing that changes.
func (s *Sweep) clone() Sweep {
	c := *s
	c.members, c.came, c.held = slices.Clone(s.members), slices.Clone(s.came), slices.Clone(s.held)
	return c
}

// sign adds what stands for the process's part.
func (e *epochs) sign(f fingerprint) fingerprint {
	f = e.sweep.sign(f).with(e.committed).with(e.wish)
	sum := uint64(0)
	for _, r := range e.copies {
		sum += r.print()
	}
	f = f.with(sum).with(uint64(len(e.copies))).with(drawnSum(e.drawn))
	if e.loss != nil {
		f = f.with(e.loss.name())
	}
	for _, m := range e.events {
		f = f.and(m.Fingerprint())
	}
	return f
}

func (s *Sweep) sign(f fingerprint) fingerprint {
	f = f.with(s.view).with(s.saved).with(uint64(s.surplus)).with(s.committed).with(uint64(s.balance))
	f = f.with(uint64(s.told)<<2 | bit(s.known)<<1 | bit(s.hold))
	for _, x := range append(slices.Clip(s.came), s.sent) {
		f = f.with(x.saved).with(x.committed).with(uint64(x.balance)).with(bit(x.said))
	}
	sum := uint64(0)
	for _, h := range s.held {
		p := h.msg.sign(fingerprint{}.with(uint64(h.from)))
		sum += p[0]
	}
	return f.with(sum)
}

func (m SweepMessage) sign(f fingerprint) fingerprint {
	return f.with(m.View<<1 | bit(m.Up)).with(m.Saved).with(m.Committed).with(uint64(m.Balance))
}
