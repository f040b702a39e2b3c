package replay

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// carryOut executes the effects that the rules demand.
func (j *Job) carryOut(s *State) {
	effects := s.rules.Exchange(s.effects)
	s.effects = effects
	for i := range effects {
		e := &effects[i]
		switch e.Act {
		case recovery.Tell:
			s.mail(e.To, Rule, j.rule(&e.Msg), nil)
		case recovery.SendCopy:
			kind := Rule
			if j.parts && large(e.Key) {
				kind = Begins
			}
			s.mail(e.To, kind, j.rule(&e.Msg), s.copy(e.Key))
		case recovery.GiveUp:
			s.tasks = slices.DeleteFunc(slices.Clone(s.tasks), func(t *task) bool { return t.number == e.Task })
		case recovery.Resend:
			for _, t := range s.tasks {
				t.again(j.program, e.Task, e.Again)
			}
		case recovery.Adopt:
			j.adopt(s, e.Task, e.Epoch)
		case recovery.Commit:
			s.commit(e.Epoch, e.Balance)
		case recovery.Move:
			s.wish = true
			j.balance(s, e.Epoch)
		case recovery.Lose:
			s.lost = &Copy{Key: recovery.Key{Task: e.Task}}
		case recovery.Depart:
			s.rest = 0
			j.members.Leave(&s.members, s.now, e.Epoch)
		case recovery.Disband:
			s.retired, s.seen = true, s.seen|Disbanded
		case recovery.Complete:
			holders := s.rules.Holders(e.Key)
			all := append(append(j.memory.members.list(len(holders) + 1)[:0], holders...), s.members.Self())
			s.event(Complete, s.copy(e.Key)).Holders = all
		}
	}
}

// rule returns a copy of a message of the rules that outlives the call.
func (j *Job) rule(m *recovery.Message) *recovery.Message {
	stays := j.memory.rules.one()
	*stays = *m
	return stays
}

// large reports whether a process sends a copy in two parts: the beginning and, when the receiver asks for
// it, the rest, behind whatever it sent meanwhile. Half of the copies are large.
func large(k recovery.Key) bool { return (uint64(k.Task)+k.Epoch)%2 == 1 }

// begins takes the beginning of a copy, and asks for the rest unless the process has it.
func (j *Job) begins(s *State, from membership.Member, m Message) {
	if m.Rule.Kind == recovery.Have && s.copy(m.Copy.Key) != nil {
		s.rules.Receive(from, *m.Rule)
		j.carryOut(s)
		return
	}
	s.rules.Coming(from, m.Copy.Key)
	s.mail(from.ID, Wants, m.Rule, m.Copy).Holders = append(j.memory.members.list(1)[:0], from)
}

// adopt runs a task from the top.
func (j *Job) adopt(s *State, number protocol.Rank, view uint64) {
	at, _ := slices.BinarySearchFunc(s.tasks, number, func(t *task, n protocol.Rank) int { return int(t.number - n) })
	s.tasks = slices.Insert(slices.Clone(s.tasks), at, j.newTask(number, view))
}

// commit lets tasks go on from a committed epoch, and drops what is no longer needed.
func (s *State) commit(epoch uint64, balance int64) {
	for _, t := range s.tasks {
		if t.saving {
			t.goOn(epoch, balance)
			s.job.entered(s, t)
		}
		t.drop(epoch)
	}
	s.kept = slices.DeleteFunc(s.kept, func(c *Copy) bool { return !s.rules.Holds(c.Key) })
}

// event queues an event about a copy for delivery to the driver.
func (s *State) event(k Kind, c *Copy) Message {
	m := s.job.memory.message(k)
	m.Copy, m.View = c, s.view.Number
	s.events = append(s.events, m)
	return m
}

// wishes commits the epoch that all tasks have saved without a view, if there will be none that moves tasks.
func (j *Job) wishes(s *State) bool {
	if !s.wish || s.members.Decides() {
		return false
	}
	s.wish = false
	s.changes++
	j.balance(s, 0)
	s.rules.Unmoved()
	j.carryOut(s)
	return true
}

// hold reports whether the process asks for views that move tasks.
func (s *State) hold() bool {
	return s.job.moves && s.view.Members[0] == s.members.Self() && s.members.Unbalanced()
}

// Copy is a copy of what a task saves, or a value of Once. It is immutable and shared.
type Copy struct {
	recovery.Key

	attempt uint64 // the view in which the attempt that saved it began
	digest  uint64 // or the value of Once
	digests []uint64
	aborted []int
	past    uint64
	onces   []uint64
}

func (s *State) copy(k recovery.Key) *Copy {
	for _, c := range s.kept {
		if c.Key == k {
			return c
		}
	}
	return nil
}

// keep keeps a copy, unless the process has one with that key.
func (s *State) keep(c *Copy) {
	if s.copy(c.Key) == nil {
		s.kept = append(s.kept, c)
	}
}

// Holds reports whether the process has a copy.
func (s *State) Holds(c *Copy) bool { return s.rules.Holds(c.Key) }

// state returns what the task saves: everything that the rest of its program depends on.
func (t *task) state() *Copy {
	c := t.memory.copies.one()
	*c = Copy{
		Key: recovery.Key{Task: t.number, Epoch: t.epoch + 1}, attempt: t.view, digest: t.digest, past: t.past,
		digests: slices.Clip(t.digests), aborted: slices.Clip(t.aborted), onces: slices.Clip(t.onces),
	}
	return c
}

// take sets the task's state to a copy.
func (t *task) take(c *Copy) {
	t.digest, t.past, t.digests, t.aborted, t.onces = c.digest, c.past, c.digests, c.aborted, c.onces
}

// once takes the next step of Once. The value that it draws depends on the process that draws it, and when.
func (j *Job) once(s *State, t *task) bool {
	k := recovery.Key{Task: t.number, Epoch: t.epoch, Name: 2*uint64(t.count) + 1}
	switch s.rules.Recall(k) {
	case recovery.Unknown:
		return false
	case recovery.Missing:
		j.giveUp(s, &Copy{Key: k})
	case recovery.Fresh:
		c := j.memory.copies.one()
		*c = Copy{Key: k, digest: protocol.Mix(protocol.Mix(t.view, uint64(s.self)), uint64(t.op))}
		s.keep(c)
		s.rules.Kept(k, false)
		j.carryOut(s)
	case recovery.Here:
		s.rules.Drew(k)
		t.draw(s.copy(k).digest)
	}
	return true
}

// draw uses the value of Once.
func (t *task) draw(value uint64) {
	t.drawn = true
	t.onces = append(t.onces, value)
	t.digest = onceOf(t.digest, value)
}

// giveUp loses a task of this process because no process has a copy.
func (j *Job) giveUp(s *State, c *Copy) {
	s.rules.Lose("nobody has it", c.Task)
	j.carryOut(s)
	s.lost = c
	s.event(Loss, c)
}

// Lost returns the missing copy of a task that, as far as the process knows, no process can run anymore; nil
// if there is none.
func (s *State) Lost() *Copy { return s.lost }
