package recovery

import (
	"cmp"
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

// Op names an agreed operation: its group, epoch and number there.
type Op struct {
	Group, Epoch, Seq uint64
}

// Vote is what a task does about an agreed operation that it comes to.
type Vote uint8

// The votes.
const (
	Enter   Vote = iota // it enters
	Wait                // until others have told what they know
	Abandon             // it is aborted
)

// Vote lets a task vote on an operation that it has not entered. ended: its context has.
func (m *Machine) Vote(number protocol.Rank, op Op, ended bool) Vote {
	t := m.find(number)
	switch {
	case t == nil || m.Aborted(op):
		return Abandon
	case !t.first() && !m.Heard():
		return Wait
	case t.first() && ended:
		m.note(op)
		return Abandon
	}
	return Enter
}

// Aborted reports whether an operation is known to be aborted.
func (m *Machine) Aborted(op Op) bool {
	_, is := slices.BinarySearchFunc(m.records, op, Op.compare)
	return is
}

func (o Op) compare(p Op) int {
	return cmp.Or(cmp.Compare(o.Epoch, p.Epoch), cmp.Compare(o.Group, p.Group), cmp.Compare(o.Seq, p.Seq))
}

// note keeps a record and has it sent to all, unless its epoch was dropped.
func (m *Machine) note(op Op) {
	i, is := slices.BinarySearchFunc(m.records, op, Op.compare)
	if is || m.dropped(op.Epoch) {
		return
	}
	m.records = slices.Insert(m.records, i, op)
	m.tellAll(Message{Kind: Record, Op: op})
}

// assure tells those who are new in the view what is aborted and lost; and those who run
// tasks again what copies there are of those tasks, and that this is all, as of the view.
func (m *Machine) assure(before *membership.View) {
	words := m.cfg.Saves || m.cfg.Aborts
	if !words && len(m.lost) == 0 {
		return
	}
	for _, o := range m.view.Members {
		if before == nil || !before.Has(o) {
			for _, op := range m.records {
				m.tell(o.ID, Message{Kind: Record, Op: op})
			}
			for _, l := range m.lost {
				m.tell(o.ID, Message{Kind: Lost, Task: l.task, Why: l.why})
			}
		}
		if words && m.reruns(o.ID) {
			m.handOver(before, o.ID)
			m.tell(o.ID, Message{Kind: Word, View: m.view.Number})
		}
	}
}

// reruns reports whether a process runs a task again in the view.
func (m *Machine) reruns(id protocol.Rank) bool {
	for t, owner := range m.view.Owners {
		if owner == id && m.view.Since[t] != firstView {
			return true
		}
	}
	return false
}

// hear takes a word.
func (m *Machine) hear(from protocol.Rank, view uint64) {
	for len(m.words) <= int(from) {
		m.words = append(m.words, 0)
	}
	m.words[from] = view
	if m.Heard() {
		m.remakeAll()
	}
}

// Records lists the operations that are known to be aborted.
func (m *Machine) Records() []Op { return m.records }

// Word is the view as of which a process has told all it knows, as far as it has come here.
func (m *Machine) Word(from protocol.Rank) uint64 {
	if int(from) >= len(m.words) {
		return 0
	}
	return m.words[from]
}

// Heard reports whether all members of the present view have said their words as of it.
func (m *Machine) Heard() bool {
	if m.view == nil {
		return false
	}
	for _, o := range m.view.Members {
		if o.ID != m.self.ID && (int(o.ID) >= len(m.words) || m.words[o.ID] != m.view.Number) {
			return false
		}
	}
	return true
}
