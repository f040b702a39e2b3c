package replay

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// parcel is a message that goes before those of the tasks.
type parcel struct {
	to  protocol.Rank
	msg Message
}

// vote returns a task's vote on its present operation.
func (j *Job) vote(s *State, t *task) recovery.Vote {
	if t.returned || t.op == len(j.program.Calls) || !j.program.Calls[t.op].Agreed {
		return recovery.Enter
	}
	part := j.program.Calls[t.op].part
	op := recovery.Op{Epoch: t.epoch, Seq: uint64(t.count) - uint64(part)} // named by its first part
	if t.begun || t.voted || part > 0 {
		if s.rules.Aborted(op) {
			return recovery.Abandon
		}
		return recovery.Enter
	}
	v := s.rules.Vote(t.number, op, slices.Contains(s.cancels, Cancel{s.self, t.number, t.op}.Notice().Value))
	j.carryOut(s)
	t.voted = v == recovery.Enter
	return v
}

// Cancel says that a context ends with which a task calls an operation, when the process At runs the task. In
// another attempt, elsewhere, the context need not end.
type Cancel struct {
	At, Task protocol.Rank
	Op       int
}

// Notice returns the notice that ends the context.
func (c Cancel) Notice() protocol.Notice {
	return protocol.Notice{Kind: protocol.Cancel, Value: uint64(c.Task)<<32 | uint64(c.Op)}
}

// mail queues a message to go before those of tasks, with the values of Once that its receiver has to know. A
// Kept message depends on no value.
func (s *State) mail(to protocol.Rank, k Kind, rule *recovery.Message, c *Copy) Message {
	m := s.job.memory.message(k)
	m.Rule, m.Copy = rule, c
	if rule.Kind != recovery.Kept {
		m.Drawn = s.rules.Owes(to)
	}
	s.parcels = append(s.parcels, parcel{to, m})
	return m
}

// gone reports whether a message is from a life that was in a view and is not in the present one, or was sent
// to an earlier life of this process.
func (s *State) gone(from protocol.Rank, m membership.Message) bool {
	if m.To != 0 && m.To != s.members.Self().Incarnation {
		return true
	}
	return s.view != nil && s.view.Past(membership.Member{ID: from, Incarnation: m.From})
}

// mailed reports whether there is a parcel, after dropping those before it to processes outside the view.
func (s *State) mailed() bool {
	for len(s.parcels) > 0 {
		if _, in := s.view.Find(s.parcels[0].to); in {
			return true
		}
		pop(&s.parcels)
	}
	return false
}

// deliver sends the oldest parcel, whose content a copy of the state may share.
func (s *State) deliver() protocol.Action[Message] {
	p := pop(&s.parcels)
	m := s.job.memory.message(p.msg.Kind)
	*m.Content = *p.msg.Content
	return protocol.Action[Message]{Kind: protocol.Send, To: p.to, Msg: m}
}
