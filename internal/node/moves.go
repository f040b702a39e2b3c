package node

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol/membership"
)

// Tasks of the living move in Save, from processes that have many to those that have few (rule 3
// of docs/design.md; package recovery).

// balance has tasks moved with the epoch that all have saved: the next view does both.
func (p *Process) balance(epoch uint64) {
	p.recovery.rules.moving = true
	p.views.state.Balance(p.view().Number, epoch)
	p.stepViews()
}

// balanced has the epoch committed without a view, if there will be none after all.
func (p *Process) balanced() {
	if v := &p.views; p.recovery.rules.moving && !v.state.Decides() {
		p.recovery.rules.moving = false
		v.state.Balance(p.view().Number, 0)
		p.recovery.rules.Unmoved()
		p.carryOut()
	}
}

// holds reports whether this process moves tasks in a view.
func (p *Process) holds(v *membership.View) bool {
	return p.cfg.Moves && p.lowest() && p.views.state.Unbalanced()
}

// leaves gives up a task that a view has given to another process while this one lives.
func (p *Process) leaves(task int) {
	for _, m := range p.groups.remove(p.groups.all(), func(m *Member) bool { return m.task == task }) {
		m.spoil(&Failure{Tasks: []int{m.task}, Err: ErrMoved, Text: fmt.Sprintf("task %d goes on in process %d", m.task, p.roster.Owner(m.task))})
		m.drop()
		p.recovery.history.bytes -= m.logged
	}
	for key, r := range p.recovery.epochs.copies {
		if int(key.Task) == task {
			r.own, r.fate = false, nil
		}
	}
	p.cfg.Logger.Info("gives away", "task", task)
}

// adopts runs a task from the top that a view has given to this process.
func (p *Process) adopts(task int) {
	p.cfg.Logger.Info("takes over", "task", task, "view", p.view().Number)
	p.enterGroup(scope{group: world}, task, nil)
	p.cfg.Adopt(p.cfg.Rank, task, p.roster.Attempt(task))
}

// Runs tells whether an attempt of a task is this process's.
func (p *Process) Runs(task, attempt int) bool {
	p.engine.Lock()
	defer p.engine.Unlock()
	return p.roster.Mine(task) && p.roster.Attempt(task) == attempt
}
