package replay

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Aborts. An agreed operation is one in which every result needs that all tasks have
// entered it. To enter is to vote for its end; so who has a result knows that nobody
// aborts any more. A task whose context ends before it enters aborts instead: everybody
// gets the same outcome. The idea is that of a commit in one phase, in which the
// messages of the operation are the votes. It costs nothing while nobody aborts and
// nobody dies; an abort is P² short messages, a view P more for each process that runs
// tasks again. The rule:
//
//  1. Only the first attempt of a task aborts, and only before it enters. Its process
//     notes a record of the operation and sends it to all of its view. The task goes on
//     at once.
//  2. Who gets a record that is new notes it and sends it to all of its view, before any
//     message of a task; one that comes before the first view is open, when that opens.
//     Tasks that are in the operation, or come to it, get «aborted». Links are first in
//     first out, so whoever gets a message that depends on an abort has its record.
//  3. When a view opens, a process takes nothing any more from who is out since (who is
//     not in yet may already send). Then, before any message of a task, it sends its records
//     to every process that is new in the view, and to every one that runs a task again its
//     word that it has told all it knew, as of this view.
//  4. A task that is run again neither enters nor leaves an agreed operation before its
//     process has the words of all members of its present view as of that view, be they
//     dead: the next view is without them.
//
// Why: if a process of the present view has the record, the task whose abort it was is
// told before it enters, in whatever attempt, so nobody gets a result. If none has, no
// message of anybody who lives depends on the abort, and it is as if it had never been.

// parcel is a message that goes before those of tasks.
type parcel struct {
	to  protocol.Rank
	msg Message
}

// vote is what a task does about its present operation.
type vote uint8

const (
	goOn    vote = iota // it enters, or is in, or there is nothing to vote on
	await               // words
	abandon             // it is aborted
)

// vote lets a task vote on its present operation.
func (j *Job) vote(s *State, t *task) vote {
	switch {
	case t.returned || t.op == len(j.program.Calls) || !j.program.Calls[t.op].Agreed:
		return goOn
	case !t.first && !t.begun && !s.heard():
		return await
	case s.knows(t.name()):
		return abandon
	case t.first && !t.begun && slices.Contains(s.cancels, Cancel{s.self, t.number, t.op}.Notice().Value):
		s.note(&Frame{Name: t.name()})
		return abandon
	}
	return goOn
}

// Cancel is the end of a context, with which a task calls an operation when a process runs
// it. In another attempt, elsewhere, it need not end.
type Cancel struct {
	At, Task protocol.Rank
	Op       int
}

// Notice tells the process.
func (c Cancel) Notice() protocol.Notice {
	return protocol.Notice{Kind: protocol.Cancel, Value: uint64(c.Task)<<32 | uint64(c.Op)}
}

// knows tells whether an operation is known to be aborted.
func (s *State) knows(n Name) bool {
	return slices.ContainsFunc(s.records, func(r *Frame) bool { return r.Epoch == n.Epoch && r.Op == n.Op })
}

// note keeps a record and has it sent to all, unless its epoch was dropped.
func (s *State) note(r *Frame) {
	if s.knows(r.Name) || s.epochs.dropped(uint64(r.Epoch)) {
		return
	}
	s.records = append(slices.Clip(s.records), r)
	if s.view != nil {
		s.spread(r)
	}
}

// spread has a record sent to all.
func (s *State) spread(r *Frame) {
	for _, m := range s.view.Members {
		s.mail(m.ID, Message{Kind: Record, Frame: r})
	}
}

func (s *State) mail(to protocol.Rank, m Message) {
	if to != s.self {
		s.parcels = append(slices.Clip(s.parcels), parcel{to, m})
	}
}

// assure tells those who are new what is aborted, and those who run tasks again what copies there
// are of those tasks, and that this is all, as of the view that has opened.
func (j *Job) assure(s *State, before *membership.View) {
	if !j.program.agreed && !j.program.keeps() {
		return
	}
	word := Message{Kind: Word}
	word.Letter.Letter = &membership.Letter{Base: s.view}
	for _, m := range s.view.Members {
		if before == nil || !before.Has(m) {
			for _, r := range s.records {
				s.mail(m.ID, Message{Kind: Record, Frame: r})
			}
		}
		if j.reruns(s.view, m.ID) {
			s.handOver(before, m.ID)
			s.mail(m.ID, word)
		}
	}
}

// reruns tells whether a process runs a task again in a view.
func (j *Job) reruns(v *membership.View, id protocol.Rank) bool {
	for i, owner := range v.Owners {
		if owner == id && moved(j.first, v, protocol.Rank(i)) {
			return true
		}
	}
	return false
}

// hear takes a word.
func (s *State) hear(from protocol.Rank, v *membership.View) {
	s.words = slices.Clone(s.words)
	for len(s.words) <= int(from) {
		s.words = append(s.words, 0)
	}
	s.words[from] = v.Number
}

// heard tells whether all members of the present view have said their words as of it.
func (s *State) heard() bool {
	for _, m := range s.view.Members {
		if m.ID != s.self && (int(m.ID) >= len(s.words) || s.words[m.ID] != s.view.Number) {
			return false
		}
	}
	return true
}

// gone tells whether a message is from a life that was in a view and is not in the
// present one, or to an earlier life.
func (s *State) gone(from protocol.Rank, m membership.Message) bool {
	if m.To != 0 && m.To != s.members.Self().Incarnation {
		return true
	}
	if s.view == nil {
		return false
	}
	_, in := s.view.Find(from)
	last := s.view.Last(from)
	return m.From < last || m.From == last && !in && last > 0
}

// deliver sends the oldest parcel to a process that is still in.
func (s *State) deliver() protocol.Action[Message] {
	for len(s.parcels) > 0 {
		p := s.parcels[0]
		s.parcels = s.parcels[1:]
		if _, in := s.view.Find(p.to); in {
			return protocol.Action[Message]{Kind: protocol.Send, To: p.to, Msg: p.msg}
		}
	}
	return protocol.Action[Message]{Kind: protocol.Idle}
}

// signAborts adds what stands for what is known of aborts.
func (s *State) signAborts(f fingerprint) fingerprint {
	sum := uint64(0)
	for _, r := range s.records {
		sum += protocol.Mix(r.Key(), 1)
	}
	for _, e := range s.cancels {
		sum += protocol.Mix(e, 2)
	}
	f = f.with(sum)
	for _, w := range s.words {
		f = f.with(w)
	}
	for _, p := range s.parcels {
		f = f.with(uint64(p.to)).and(p.msg.Fingerprint())
	}
	return f.with(uint64(len(s.parcels)))
}
