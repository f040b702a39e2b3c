package recovery

import (
	"cmp"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Aborts. In an agreed operation, every result requires that all tasks have
// entered the operation. A task votes for the operation by entering it, so a task that has a result knows that no task
// aborts it any more. A task whose context ends before it enters aborts the operation instead: all tasks
// get the same outcome. The idea is a commit in one phase, in which the
// messages of the operation are the votes. It costs nothing while no task aborts and
// no process dies; an abort costs P² short messages, a view P more for each process that runs
// tasks again. The rule:
//
//  1. Only the first attempt of a task aborts, and only before it enters. Its process
//     keeps a record of the operation and sends the record to all processes of its view. The task continues
//     at once.
//  2. A process that gets a new record keeps it and sends it to all processes of its view, before any
//     message of a task. If the record arrives before the first view is open, the process does so when that view opens.
//     Tasks that are in the operation, or reach it, get "aborted". Links are first in,
//     first out, so a process that gets a message that depends on an abort has the record of that abort.
//  3. When a view opens, a process accepts nothing more from processes that the view removed (processes that are
//     not members yet may already send). Then, before any message of a task, it sends its records
//     to every process that is new in the view. To every process that runs a task again it sends its
//     word: a message that says that it has told everything it knew, as of this view.
//  4. A task that is run again neither enters nor leaves an agreed operation before its
//     process has the words of all members of its current view as of that view, even of dead
//     members: the next view is without them.
//
// Why this works: if a process of the current view has the record, the task whose abort it was learns of it
// before it enters, in whichever attempt, so no task gets a result. If no process has it, no
// message of a live process depends on the abort, and it is as if the abort had never happened.

// Op names an agreed operation: its group, epoch and number there.
type Op struct {
	Group, Epoch, Seq uint64
}

// Vote is what a task does about an agreed operation that it reaches.
type Vote uint8

// The votes.
const (
	Enter   Vote = iota // it enters
	Wait                // until others have told what they know
	Abandon             // the operation is aborted
)

// Vote lets a task vote on an operation that it has not entered. ended says that its context has ended.
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

// note keeps a record and sends it to all processes, unless its epoch was dropped.
func (m *Machine) note(op Op) {
	i, is := slices.BinarySearchFunc(m.records, op, Op.compare)
	if is || m.dropped(op.Epoch) {
		return
	}
	m.records = slices.Insert(m.records, i, op)
	m.tellAll(Message{Kind: Record, Op: op})
}

// assure tells processes that are new in the view what is aborted and lost. It sends processes that run
// tasks again the copies of those tasks, and the word that this is all, as of the view.
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

// hear records a word.
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

// Word returns the view of the latest word of a process that has arrived here.
func (m *Machine) Word(from protocol.Rank) uint64 {
	if int(from) >= len(m.words) {
		return 0
	}
	return m.words[from]
}

// Heard reports whether the words of all members of the current view, as of that view, have arrived.
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
