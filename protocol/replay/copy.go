package replay

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Copies. What a task saves, and what Once gave it, is kept by its owner and by k others,
// its neighbours on the ring of the view; if there are fewer, by all. The rule:
//
//  1. A value is used when enough processes of the present view have said that they have it:
//     a task has saved then, and Once returns.
//  2. When a view opens, the owner of a task has copies made again until enough have them.
//  3. Who has copies of a task that has a new owner sends them to it, and then its word
//     that these were all, as of that view (abort.go). Before it has all words, the new
//     owner has no copies made and draws no value of Once.
//  4. A copy has a name: task, epoch, key. No other ever takes its place.
//  5. What a process sends says of which values of Once it knows that they were returned:
//     here, or to whom sent it something. So whoever has anything that follows from a value
//     knows of it. If nobody in the view has a copy of a value, but somebody knows of it,
//     the task is lost. If nobody does, it is as if it had never been: it is drawn anew.
//
// So a state of an epoch that is committed is lost only if all die who had it when there
// were enough copies the last time: its owner and k others, or everybody in that view.

// Copy is what is kept. It is never changed, and shared.
type Copy struct {
	Task       protocol.Rank
	Epoch, Key uint64 // key 0: the state at the beginning of the epoch; others: values of Once

	digest  uint64 // or the value
	digests []uint64
	aborted []int
	past    uint64
	onces   []uint64
}

func (c *Copy) String() string {
	if c.Key > 0 {
		return fmt.Sprintf("value %d of task %d in epoch %d", c.Key, c.Task, c.Epoch)
	}
	return fmt.Sprintf("state of task %d in epoch %d", c.Task, c.Epoch)
}

// name stands for the name.
func (c *Copy) name() uint64 { return protocol.Mix(protocol.Mix(uint64(c.Task), c.Epoch), c.Key) }

// Same tells whether it has the name of another.
func (c *Copy) Same(d *Copy) bool { return c.Task == d.Task && c.Epoch == d.Epoch && c.Key == d.Key }

// state is what the task saves: all that the rest of its program depends on.
func (t *task) state() *Copy {
	return &Copy{
		Task: t.number, Epoch: t.epoch + 1, digest: t.digest, past: t.past,
		digests: slices.Clip(t.digests), aborted: slices.Clip(t.aborted), onces: slices.Clip(t.onces),
	}
}

// take makes a state the task's.
func (t *task) take(c *Copy) {
	t.digest, t.past, t.digests, t.aborted, t.onces = c.digest, c.past, c.digests, c.aborted, c.onces
}

// replica is a copy that is here.
type replica struct {
	*Copy
	asked    []membership.Member // who was sent it, or has it: the owner's knowledge
	holders  []membership.Member // who has it
	complete uint64              // the last view in which there were enough
}

func (s *State) copy(task protocol.Rank, epoch, key uint64) *replica {
	for i := range s.epochs.copies {
		if r := &s.epochs.copies[i]; r.Task == task && r.Epoch == epoch && r.Key == key {
			return r
		}
	}
	return nil
}

// store keeps a copy.
func (s *State) store(c *Copy) {
	if s.epochs.dropped(c.Epoch) {
		return
	}
	if r := s.copy(c.Task, c.Epoch, c.Key); r != nil {
		r.Copy = c
		return
	}
	s.epochs.copies = append(slices.Clip(s.epochs.copies), replica{Copy: c})
}

// has takes note that a process has a copy.
func (s *State) has(c *Copy, m membership.Member) {
	r := s.copy(c.Task, c.Epoch, c.Key)
	if r != nil && !slices.Contains(r.holders, m) {
		r.holders = append(slices.Clip(r.holders), m)
		if !slices.Contains(r.asked, m) {
			r.asked = append(slices.Clip(r.asked), m)
		}
	}
}

// wanted is how many others must have a copy.
func (s *State) wanted() int { return min(s.job.copies, len(s.view.Members)-1) }

// enough tells whether so many have.
func (s *State) enough(r *replica) bool { return s.count(r.holders) >= s.wanted() }

// count is how many of some are in the view.
func (s *State) count(some []membership.Member) (n int) {
	for _, m := range some {
		if s.view.Has(m) {
			n++
		}
	}
	return n
}

// remake has copies made until there are enough of all that tasks of this process need.
func (s *State) remake() {
	heard := s.heard()
	for i := range s.epochs.copies {
		r := &s.epochs.copies[i]
		t := s.find(r.Task)
		if t == nil || !t.first && !heard {
			continue
		}
		s.spreadCopy(r)
		if r.complete < s.view.Number && s.enough(r) {
			r.complete = s.view.Number
			all := append(slices.Clone(r.holders), s.members.Self())
			s.event(Complete, &EpochMessage{Copy: r.Copy, Holders: all, View: s.view.Number})
		}
	}
}

// spreadCopy sends a copy to as many neighbours as must have one.
func (s *State) spreadCopy(r *replica) {
	members := s.view.Members
	at := slices.IndexFunc(members, func(m membership.Member) bool { return m.ID == s.self })
	n := s.count(r.asked)
	for i := 1; i < len(members) && n < s.wanted(); i++ {
		m := members[(at+i)%len(members)]
		if slices.Contains(r.asked, m) {
			continue
		}
		r.asked = append(slices.Clip(r.asked), m)
		s.mail(m.ID, Message{Kind: Keep, Epoch: &EpochMessage{Copy: r.Copy}})
		n++
	}
}

// handOver sends the new owner of tasks what is kept of them.
func (s *State) handOver(before *membership.View, to protocol.Rank) {
	for _, r := range s.epochs.copies {
		if s.view.Owners[r.Task] == to && moved(before, s.view, r.Task) {
			s.mail(to, Message{Kind: Have, Epoch: &EpochMessage{Copy: r.Copy}})
		}
	}
}

// once makes the next step of Once. What it draws depends on who draws it, and when.
func (s *State) once(t *task) bool {
	key := uint64(t.count) + 1
	r := s.copy(t.number, t.epoch, key)
	switch {
	case !t.first && !s.heard():
		return false
	case r == nil && s.hasDrawn(t.number, t.epoch, key):
		s.giveUp(&Copy{Task: t.number, Epoch: t.epoch, Key: key})
		return true
	case r == nil:
		value := protocol.Mix(protocol.Mix(t.view, uint64(s.self)), uint64(t.op))
		s.store(&Copy{Task: t.number, Epoch: t.epoch, Key: key, digest: value})
		return true
	case !s.enough(r):
		return false
	}
	s.noteDrawn([]*Copy{r.Copy})
	t.draw(r.digest)
	return true
}

// noteDrawn takes note of values from which something may follow that is known here.
func (s *State) noteDrawn(values []*Copy) {
	for _, c := range values {
		if !s.epochs.dropped(c.Epoch) && !s.hasDrawn(c.Task, c.Epoch, c.Key) {
			s.epochs.drawn = append(slices.Clip(s.epochs.drawn), c)
		}
	}
}

// hasDrawn tells whether something may follow from a value that is known here.
func (s *State) hasDrawn(task protocol.Rank, epoch, key uint64) bool {
	return slices.ContainsFunc(s.epochs.drawn, func(c *Copy) bool { return c.Task == task && c.Epoch == epoch && c.Key == key })
}

// drawnSum stands for such values, in any order.
func drawnSum(values []*Copy) (sum uint64) {
	for _, c := range values {
		sum += protocol.Mix(c.name(), 1)
	}
	return sum
}

// draw takes the value of Once.
func (t *task) draw(value uint64) {
	t.drawn = true
	t.onces = append(slices.Clip(t.onces), value)
	t.digest = onceOf(t.digest, value)
}

// Holds tells whether the process has a copy.
func (s *State) Holds(c *Copy) bool { return s.copy(c.Task, c.Epoch, c.Key) != nil }

// print stands for a copy that is here.
func (r *replica) print() uint64 {
	sum := protocol.Mix(r.name(), protocol.Mix(r.digest, r.past)) + r.complete
	for _, m := range r.asked {
		sum += protocol.Mix(uint64(m.ID), uint64(m.Incarnation))
	}
	for _, m := range r.holders {
		sum += protocol.Mix(uint64(m.ID)+1<<32, uint64(m.Incarnation))
	}
	return protocol.Mix(sum, 1)
}

// EpochMessage is a message that has to do with epochs. It is never changed, and shared.
type EpochMessage struct {
	Sweep SweepMessage // Sweeping
	*Copy              // all others; Loss: whose it is, and of which epoch

	Holders []membership.Member // Complete: who has it
	View    uint64              // Complete, Resumed, Again, and Loss if it is delivered: in which
}

func (m *EpochMessage) sign(f fingerprint) fingerprint {
	if m.Copy == nil {
		return m.Sweep.sign(f)
	}
	f = f.with(m.name()).with(m.digest).with(m.past).with(m.View)
	for _, h := range m.Holders {
		f = f.with(uint64(h.ID)<<32 | uint64(h.Incarnation))
	}
	return f
}

// text describes the message.
func (m *EpochMessage) text(k Kind) string {
	switch k {
	case Sweeping:
		if m.Sweep.Up {
			return fmt.Sprintf("sweep of view %d: saved %d, committed %d", m.Sweep.View, int64(m.Sweep.Saved), m.Sweep.Committed)
		}
		return fmt.Sprintf("sweep of view %d: committed %d", m.Sweep.View, m.Sweep.Committed)
	case Keep:
		return fmt.Sprintf("keep the %v", m.Copy)
	case Kept:
		return fmt.Sprintf("kept the %v", m.Copy)
	case Have:
		return fmt.Sprintf("have the %v", m.Copy)
	case Again:
		return fmt.Sprintf("task %d is run again since view %d", m.Task, m.View)
	case Loss:
		return fmt.Sprintf("nobody has the %v", m.Copy)
	case Complete:
		return fmt.Sprintf("%v have the %v", m.Holders, m.Copy)
	}
	return fmt.Sprintf("view %d goes on from the %v", m.View, m.Copy)
}
