package recovery

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Epochs (docs/decisions/2026-11-16-epochs.md). When a task calls Save, its process makes copies of its
// state (copies.go), and the task waits until all tasks have saved (sweep.go). Then the epoch is
// committed: it holds for all processes, and what was kept of the previous epoch is
// dropped. The rule:
//
//  1. Messages carry their epoch, and operations are numbered from the start in each epoch. A message
//     for a later epoch is kept.
//  2. A task has saved when enough processes of the current view have confirmed that they
//     have its state. A process has saved when all its tasks have, and reports that again in each
//     view. A process that runs a task again has not saved before that task has come as far.
//  3. A process that knows that an epoch is committed continues from it, and drops the log, the
//     records of aborts and the copies of earlier epochs, but not of epoch 0.
//  4. A task that is run again runs from the top. At its first Save it waits until its
//     process knows what is committed as of the current view. If that is nothing, it
//     saves as the others do. Otherwise it continues from the state of that epoch, which
//     processes that have it send: it waits for the state until all have said their
//     word, as of the current view. If no process has it then, the task is lost.
//
// A lost task delays no other task.

// Save says that a task has called Save for an epoch, for what Kept was called with, and how
// many messages it has sent since the previous Save, less those that it has received.
func (m *Machine) Save(number protocol.Rank, epoch uint64, balance int64) {
	if t := m.find(number); t != nil {
		t.to, t.balance = epoch, balance
		m.settle()
	}
}

// Unsaved says that a task no longer waits in Save, although the epoch is not committed.
func (m *Machine) Unsaved(number protocol.Rank) {
	if t := m.find(number); t != nil {
		t.to = 0
	}
}

// say tells the sweep what all tasks of this process have saved, if they have.
func (m *Machine) say() {
	if m.view == nil {
		return
	}
	epoch, balance := uint64(Idle), int64(0)
	for i := range m.tasks {
		t := &m.tasks[i]
		if m.IsLost(t.number) {
			continue
		}
		if t.to == 0 || !m.Enough(Key{Task: t.number, Epoch: t.to}) {
			return
		}
		epoch = min(epoch, t.to)
		balance += t.balance
	}
	m.sweep.Save(epoch, balance)
}

// commit acts on what is committed.
func (m *Machine) commit(epoch uint64, balance int64) {
	m.committed = epoch
	if len(m.lost) > 0 { // a lost task has not received what it was sent, which is no mistake of the program
		balance = 0
	}
	for i := range m.tasks {
		if t := &m.tasks[i]; t.to == epoch && balance == 0 {
			t.at, t.to = epoch, 0
		}
	}
	m.drop(false)
	followed := slices.ContainsFunc(m.records, func(op Op) bool { return m.dropped(op.Epoch) }) ||
		slices.ContainsFunc(m.drawn, func(k Key) bool { return m.dropped(k.Epoch) && !k.Commitment() })
	m.records = slices.DeleteFunc(m.records, func(op Op) bool { return m.dropped(op.Epoch) })
	m.coming = slices.DeleteFunc(m.coming, func(c coming) bool { return m.dropped(c.Epoch) })
	m.forgetDrawn()
	m.do(Effect{Act: Commit, Epoch: epoch, Balance: balance})
	if followed && balance == 0 && m.view != nil {
		m.Drew(commitment(epoch, m.view.Number))
	}
}

// forgetDrawn forgets values of epochs that were dropped.
func (m *Machine) forgetDrawn() {
	if len(m.drawn) == 0 {
		return
	}
	kept := make([]int, len(m.drawn)+1) // by number of values before: how many of them stay
	var drawn []Key
	for i, k := range m.drawn {
		if !m.dropped(k.Epoch) {
			drawn = append(drawn, k)
		}
		kept[i+1] = len(drawn)
	}
	for r, told := range m.owed {
		m.owed[r] = kept[told]
	}
	m.drawn = drawn
	m.known = slices.DeleteFunc(m.known, func(k Key) bool { return m.dropped(k.Epoch) })
}

// dropped reports whether nothing is kept of an epoch any more.
func (m *Machine) dropped(epoch uint64) bool { return 0 < epoch && epoch < m.committed }

// Committed returns the latest committed epoch, as far as is known.
func (m *Machine) Committed() uint64 { return m.committed }

// Resume returns the epoch from which a task that is run again, and has reached its first Save, continues.
// known: this is known. 0: no epoch is committed, and the task saves as the others do.
// here: the state is here; otherwise no process has it.
func (m *Machine) Resume(number protocol.Rank) (epoch uint64, here, known bool) {
	t := m.find(number)
	k := Key{Task: number, Epoch: m.committed}
	switch {
	case t == nil || t.first() || t.at > 0:
		return 0, false, t != nil
	case !m.sweep.Known():
		return 0, false, false
	case m.committed == 0:
		return 0, false, true
	case !m.Told(k):
		return 0, false, false
	}
	return m.committed, m.Holds(k), true
}

// Resumed says that the task continues from the epoch that Resume returned.
func (m *Machine) Resumed(number protocol.Rank, epoch uint64) {
	if t := m.find(number); t != nil {
		t.at, t.to = epoch, 0
	}
}
