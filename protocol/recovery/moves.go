package recovery

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Owners of tasks. A view says which process owns each task, and since which view. The rule:
//
//  1. A process that opens a view gives up the tasks that it does not own there, hands over the copies
//     of tasks that have moved (copies.go), sends these tasks what they were sent before, from
//     its log, and runs the tasks that it owns now, from the top.
//  2. Tasks of live processes move in Save, from processes that own many to processes that own few, such
//     as one that has joined (docs/decisions/2026-11-16-epochs.md, point 6). The root of the sweep
//     is the lowest process of the view, which proposes the next view. If tasks are to
//     move, it holds: it does not commit what all have saved.
//  3. When all have saved, it proposes a view of the same processes with other owners, which
//     says that the epoch is committed. Deciding the view commits the epoch. If another
//     view is decided instead, nothing has moved, and all processes report again in it what they have saved. If
//     there is nothing to decide after all, it commits the epoch without a view.
//  4. What tasks of one process send each other before the first Save is logged, too: one
//     of them may move.
//  5. A task may come back to its earlier owner, by a view that follows one that this process has
//     not opened: the new owner died. Other processes may have opened that view before, and sent
//     the task what it was sent before; the attempt that waited there has dropped it. So its
//     process asks for it once more.
//  6. Once all processes know that the job is over, no task is run again (Over).
//
// Until a process has opened the view it does not know that the epoch is committed, so the
// attempt that it gives up then has never continued from the epoch.

// moved reports whether a task has a new owner, or a new attempt at the same one.
func moved(before, now *membership.View, task protocol.Rank) bool {
	return before == nil || before.Since[task] != now.Since[task]
}

// assign records the tasks that the view gives to this process.
func (m *Machine) assign(before *membership.View) {
	had := len(m.tasks)
	for i, owner := range m.view.Owners {
		number := protocol.Rank(i)
		if owner != m.self.ID {
			continue
		}
		if t := m.find(number); t != nil && !moved(before, m.view, number) {
			m.tasks = append(m.tasks, *t)
		} else {
			m.tasks = append(m.tasks, task{number: number, since: m.view.Since[i]})
		}
	}
	m.tasks = slices.Delete(m.tasks, 0, had)
}

// reassign does what new owners require.
func (m *Machine) reassign(before *membership.View) {
	var all, nobodys []protocol.Rank // tasks that have moved, and tasks without an owner
	for i, owner := range m.view.Owners {
		switch number := protocol.Rank(i); {
		case owner < 0:
			nobodys = append(nobodys, number)
		case moved(before, m.view, number):
			all = append(all, number)
		}
	}
	if nobodys != nil {
		m.noteLost(m.nobodys(), nobodys...) // the view tells all
	}
	if m.logless {
		m.lose(fmt.Sprintf("process %d has not kept what it sent to it: more than LogBytes", m.self.ID), all...)
	}
	for _, number := range all {
		owner := m.view.Owners[number]
		if before != nil && before.Owners[number] == m.self.ID {
			m.do(Effect{Act: GiveUp, Task: number})
			if owner == m.self.ID {
				m.tellAll(Message{Kind: Again, Task: number, View: m.view.Since[number]})
			}
		}
	}
	for _, number := range all {
		m.do(Effect{Act: Resend, Task: number})
	}
	for _, number := range all {
		if m.view.Owners[number] == m.self.ID && !m.IsLost(number) && !m.over {
			m.do(Effect{Act: Adopt, Task: number, Epoch: m.view.Since[number]})
		}
	}
}

// nobodys returns why the view gives a task no owner.
func (m *Machine) nobodys() string {
	if m.cfg.Nobodys != nil {
		return m.cfg.Nobodys(m.view)
	}
	return fmt.Sprintf("view %d gives it to nobody", m.view.Number)
}

// Unmoved says that there will be no view for which Move asked: the epoch is committed without one.
func (m *Machine) Unmoved() {
	m.sweep.Hold(false)
	m.settle()
}
