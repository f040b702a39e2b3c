package runtime

import "slices"

// Tasks whose process has died are orphans until a view gives them to another, and lost if
// nobody can run them again.

// orphan takes note of the tasks of a process that died.
func (p *Process) orphan(rank int, how string) {
	for t, r := range p.owner {
		if int(r) != rank || p.gone[t].dead {
			continue
		}
		p.gone[t] = gone{orphan: true, why: how}
		p.someDead = true
	}
	for _, m := range p.members {
		m.orphaned()
	}
}

// orphaned looks what the deaths of processes mean to the group whose tasks will be
// run again: for the moment, nothing.
func (m *Member) orphaned() {
	if !m.known {
		return
	}
	for o := range m.ops.all() {
		o.dropUnfinished()
		if o.pausing > 0 { // there is reason to hurry now
			o.pausing = 0
			o.step()
		}
		if o.waits() && o.plan.is(unlogged) {
			o.needs()
		}
	}
}

// lose gives up tasks that cannot be run again.
func (p *Process) lose(why string, tasks ...int) {
	tasks = slices.DeleteFunc(tasks, func(t int) bool { return p.gone[t].dead })
	if len(tasks) == 0 {
		return
	}
	p.cfg.Logger.Error("lost", "tasks", tasks, "why", why)
	for _, t := range tasks {
		p.gone[t] = gone{dead: true, why: why}
	}
	p.someGone, p.someDead = true, true
	for _, m := range p.members {
		m.lost()
		if slices.Contains(tasks, m.task) { // it is here, and must end
			m.fail(func(*operation) *Failure { return m.goneFailure("", m.rank) })
		}
	}
	p.settlesNow()
	p.roomAgain()
}

// tellLost tells everybody that tasks cannot be run again.
func (p *Process) tellLost(why string, tasks ...int) {
	for _, t := range tasks {
		for _, id := range p.views.sight.View.Members {
			if int(id.ID) != p.cfg.Rank {
				p.peerAt(int(id.ID)).tellLost(t, why)
			}
		}
		p.lose(why, t)
	}
}

func (q *peer) tellLost(task int, why string) {
	q.send(envelope{plan: Plan{op: opLost}, extra: uint64(task), seq: q.p.since[task]}, []byte(why), nil)
}

// tellLosses tells a process that has just joined which tasks are lost: what it will be sent may
// follow from that.
func (q *peer) tellLosses() {
	for t, g := range q.p.gone {
		if g.dead {
			q.tellLost(t, g.why)
		}
	}
}

// taskLost learns that a task cannot be run again.
func (p *Process) taskLost(in *incoming) {
	if in.extra < uint64(len(p.gone)) {
		p.lose(string(in.value), int(in.extra))
	}
}

// WhyMissing says why a task could not be run again; "": it was not lost.
func (p *Process) WhyMissing(task int) string {
	p.lock()
	defer p.unlock()
	if g := p.gone[task]; g.dead {
		return g.why
	}
	return ""
}

// Missing lists the tasks that should have been run again and could not.
func (p *Process) Missing() (tasks []int) {
	p.lock()
	defer p.unlock()
	for t, g := range p.gone {
		if g.dead && p.replays() {
			tasks = append(tasks, t)
		}
	}
	return tasks
}
