package node

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Tasks whose process has died are orphans until a view gives them to another, and lost if
// nobody can run them again.

// orphaned looks what the deaths of processes mean to the group whose tasks will be
// run again: for the moment, nothing.
func (m *Member) orphaned() {
	if !m.known {
		return
	}
	for o := range m.ops.all() {
		o.bereaved()
		if o.waits() && o.plan.is(unlogged) {
			o.needs()
		}
	}
}

// lose gives up tasks that cannot be run again.
func (p *Process) lose(why string, tasks ...int) {
	if tasks = p.roster.Lose(why, tasks...); len(tasks) == 0 {
		return
	}
	p.cfg.Logger.Error("lost", "tasks", tasks, "why", why)
	for m := range p.groups.all() {
		m.lost()
		if slices.Contains(tasks, m.task) { // it is here, and must end
			m.fail(func(*operation) *Failure { return m.goneFailure("", m.rank) })
		}
	}
	p.settlesNow()
	p.roomAgain()
}

// tellLost gives up tasks that cannot be run again, and tells everybody.
func (p *Process) tellLost(why string, tasks ...int) {
	ranks := make([]protocol.Rank, len(tasks))
	for i, t := range tasks {
		ranks[i] = protocol.Rank(t)
	}
	p.recovery.rules.Lose(why, ranks...)
	p.carryOut()
}

// Missing lists the tasks that should have been run again and could not, and why.
func (p *Process) Missing() (tasks []int, why []string) {
	p.engine.Lock()
	defer p.engine.Unlock()
	for t := range p.roster.Len() {
		if g := p.roster.Status(t); g.Dead && p.replays() {
			tasks, why = append(tasks, t), append(why, g.Why)
		}
	}
	return tasks, why
}

// quitted takes note of a process that has exited with 0: tasks of it that had not returned would end
// whoever runs them next as well.
func (p *Process) quitted(rank int) {
	for t := range p.cfg.Tasks {
		if p.roster.Owner(t) == rank && !p.roster.Status(t).Returned {
			if p.recovery.quit == nil {
				p.recovery.quit = map[int]int{}
			}
			p.recovery.quit[t] = rank
		}
	}
}

// Quit returns the process that exited with 0 before a task of it had returned; false: none has.
func (p *Process) Quit(task int) (rank int, did bool) {
	p.engine.Lock()
	defer p.engine.Unlock()
	rank, did = p.recovery.quit[task]
	return rank, did
}
