package runtime

import (
	"errors"
	"fmt"
	"slices"
)

// Tasks of the living move in Save, from processes that have many to those that have few (rule 3
// of docs/design.md). protocol/recovery/moves.go has the same rule as a machine.

// balance has tasks moved with the epoch that all have saved: the next view does both. If
// there is no such view after all, the epoch is committed without.
func (p *Process) balance(epoch uint64) {
	v := &p.views
	v.protocol.Balance(&v.state, epoch)
	p.stepViews()
	if v.stepping || v.state.Decides() || p.epochs.committed >= epoch {
		return
	}
	v.protocol.Balance(&v.state, 0)
	p.epochs.sweep.Hold(false)
	p.stepSweep()
}

// ErrMoved: the task is another process's now.
var ErrMoved = errors.New("moved")

// leaves gives up tasks that a view has given to others while this process lives.
func (p *Process) leaves(tasks []int) {
	if len(tasks) == 0 {
		return
	}
	gone := func(m *Member) bool { return slices.Contains(tasks, m.task) }
	for key, m := range p.members {
		if gone(m) {
			m.spoil(&Failure{Tasks: []int{m.task}, Err: ErrMoved, Text: fmt.Sprintf("task %d goes on in process %d", m.task, p.owner[m.task])})
			m.drop()
			delete(p.members, key)
			p.history.bytes -= m.logged
		}
	}
	p.epochs.members = slices.DeleteFunc(p.epochs.members, gone)
	p.releases.kept = slices.DeleteFunc(p.releases.kept, gone)
	p.last = nil
	for key, r := range p.epochs.copies {
		if slices.Contains(tasks, int(key.task)) {
			r.own, r.fate = false, nil
		}
	}
	p.cfg.Logger.Info("gives away", "tasks", tasks)
	p.askAgain(tasks)
}

// askAgain has sent once more what was sent to those of some tasks that are run again where
// they were: the views that gave them away and back came at once. Who has opened
// them before has sent it, but the attempt that waited here has dropped it.
func (p *Process) askAgain(tasks []int) {
	for _, t := range tasks {
		for _, id := range p.views.sight.View.Members {
			if int(p.owner[t]) == p.cfg.Rank && int(id.ID) != p.cfg.Rank {
				p.peerAt(int(id.ID)).send(envelope{seq: p.since[t], extra: uint64(t), plan: Plan{op: opAgain}}, nil, nil)
			}
		}
	}
}

// askedAgain sends it, unless the view that gave the task back is still to be opened here.
func (p *Process) askedAgain(in *incoming) {
	if in.extra < uint64(len(p.owner)) && p.since[in.extra] == in.seq {
		p.reopen(int(in.extra))
	}
}

// Runs tells whether an attempt of a task is this process's.
func (p *Process) Runs(task, attempt int) bool {
	p.lock()
	defer p.unlock()
	return int(p.owner[task]) == p.cfg.Rank && int(p.since[task]-1) == attempt
}
