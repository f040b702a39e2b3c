package recovery

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Epochs (docs/decisions/2026-11-16-epochs.md). A task that calls Save has copies of its
// state made (copies.go), and waits until all tasks have (sweep.go). Then the epoch is
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
//
// A task that is lost holds nobody back.

// Save says that a task has called Save for an epoch, with what Kept was called for, and how
// many messages it has sent since the Save before, less those that it has received.
func (m *Machine) Save(number protocol.Rank, epoch uint64, balance int64) {
	if t := m.find(number); t != nil {
		t.to, t.balance = epoch, balance
		m.settle()
	}
}

// Unsaved says that a task waits in Save no more, though the epoch is not committed.
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
	if len(m.lost) > 0 { // it has not received what it was sent, which is nobody's mistake
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
	kept := make([]int, len(m.drawn)+1) // how many stay of so many
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

// Committed is the latest epoch that is committed, for all that is known.
func (m *Machine) Committed() uint64 { return m.committed }

// Resume says from which epoch a task that is run again, and has come to its first Save, goes on.
// known: that can be said. 0: none is committed, and it saves as the others do.
// here: the state is; otherwise nobody has it.
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

// Resumed says that the task goes on from the epoch that Resume returned.
func (m *Machine) Resumed(number protocol.Rank, epoch uint64) {
	if t := m.find(number); t != nil {
		t.at, t.to = epoch, 0
	}
}
