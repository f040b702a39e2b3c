package node

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Epochs (rule 9 of docs/design.md; docs/decisions/2026-11-16-epochs.md says why it is
// so). A task that saves its state waits until all have, each with copies at other
// processes: then the epoch is committed, everybody drops what was kept of the one
// before, and operations go on in groups of the new epoch. Who runs a task again runs its
// program from the top to its first Save, and resumes there with the state of the epoch
// that is committed. Epoch 0 is what programs do before that; its log stays.

// epochs is a process's part in them.
type epochs struct {
	tasks   []taskEpoch // by task
	copies  map[recovery.Key]*replica
	backups int64         // bytes of the copies that are backups of reductions
	told    protocol.Time // when the host was last told
}

// taskEpoch is where a task of this process is.
type taskEpoch struct {
	at      uint64     // the epoch that it is in
	from    uint64     // the one that this attempt has resumed in: an earlier one may have been there
	to      uint64     // the one that it saves
	saving  *operation // the Save that it waits in
	balance int64      // messages that it sent in the epoch less those that it received
	spare   []byte     // memory of a state that is not needed any more
}

// initEpochs begins with epoch 0.
func (p *Process) initEpochs() {
	e := &p.recovery.epochs
	e.tasks = make([]taskEpoch, p.roster.Len())
	e.copies = map[recovery.Key]*replica{}
}

// taskEpoch is where a task of this process is.
func (p *Process) taskEpoch(task int) *taskEpoch { return &p.recovery.epochs.tasks[task] }

// begunBefore reports whether an earlier attempt of the task may have been in this epoch.
func (m *Member) begunBefore() bool { return uint64(m.epoch) <= m.p.taskEpoch(m.task).from }

// awaitRules waits until something has changed in what is known of others.
func (p *Process) awaitRules(ctx context.Context) error {
	return p.engine.Stand(ctx, &p.recovery.rules.waiting)
}

// awaitRules waits there until something holds, as long as the task can use its group.
func (m *Member) awaitRules(ctx context.Context, name string, holds func() bool) error {
	for !holds() {
		if err := m.p.awaitRules(ctx); err != nil {
			return &Failure{Op: name, Err: err}
		}
		if err := m.usable(name); err != nil {
			return err
		}
	}
	return nil
}

// commit goes on to an epoch that all tasks have saved. If they have not received all
// that they sent before, that is misuse.
func (p *Process) commit(epoch uint64, balance int64) {
	e := &p.recovery.epochs
	for t := range e.tasks {
		te := &e.tasks[t]
		o := te.saving
		if o == nil || te.to != epoch {
			continue
		}
		if balance != 0 {
			o.m.misuse(nil, saveName, nil, "%s", unreceived(balance))
			continue
		}
		*te = taskEpoch{at: epoch, from: te.from, spare: te.spare}
		p.enterEpoch(t)
		if o.err == nil { // otherwise the task has yet to see that the Save has failed
			o.deliver(0)
			o.finished = true
			o.retire()
		}
	}
	p.dropBefore(epoch)
	if h := p.cfg.Host; h != nil && p.engine.Now()-e.told > epochEvery && p.lowest() {
		e.told = p.engine.Now()
		go h.Epoch(epoch)
	}
}

// epochEvery is how often the host is told of epochs at most.
const epochEvery = protocol.Time(100 * time.Millisecond)

func unreceived(balance int64) string {
	if balance < 0 {
		return fmt.Sprintf("before this Save tasks received %d messages more than were sent", -balance)
	}
	return fmt.Sprintf("messages that were sent before this Save and not received: %d", balance)
}

// enterEpoch makes the group of all tasks known to a task in the epoch that it is in.
func (p *Process) enterEpoch(task int) *Member {
	return p.enterGroup(scope{world, uint32(p.recovery.epochs.tasks[task].at)}, task, nil)
}

// dropBefore drops what is kept of the epochs before one, except the first.
func (p *Process) dropBefore(epoch uint64) {
	e := &p.recovery.epochs
	for _, m := range p.groups.removeLater(func(m *Member) bool { return m.epoch != 0 && uint64(m.epoch) < epoch }) {
		m.drop()
		p.recovery.history.bytes -= m.logged
	}
	p.recovery.history.told = min(p.recovery.history.told, p.recovery.history.bytes)
	for key, r := range e.copies {
		if key.Epoch != 0 && key.Epoch < epoch {
			if key.Backup() {
				e.backups -= int64(len(r.value))
			}
			r.drop(p)
			delete(e.copies, key)
		}
	}
}

// stale tells whether a message is of an epoch that was dropped.
func (p *Process) stale(in *incoming) bool {
	return in.epoch != 0 && uint64(in.epoch) < p.recovery.rules.Committed()
}

// saveName is what Save is called as an operation.
const saveName = "save"

// Saving is a call of Save.
type Saving struct {
	State []byte // is the runtime's from now on
	Sign  uint64
	Type  string

	// Epoch is the epoch that the state is of, where it was saved by an earlier job;
	// 0: the next one.
	Epoch uint64
	// Stored says that the state is kept elsewhere: no copies are made.
	Stored bool
}

// Save saves the task's state and waits until all tasks have saved theirs. The task goes
// on in the group that it returns.
func (m *Member) Save(ctx context.Context, c Saving) (*Member, error) {
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	if err := m.saves(); err != nil {
		return nil, err
	}
	if err := m.catchUp(ctx, saveName); err != nil {
		return nil, err
	}
	te := &p.recovery.epochs.tasks[m.task]
	to := te.at + 1
	if c.Epoch > 0 {
		to = c.Epoch
	}
	if to > math.MaxUint32 {
		return nil, &Failure{Op: saveName, Tasks: []int{m.task}, Err: ErrMismatch, Text: fmt.Sprintf("epoch %d; allowed: up to %d", to, uint32(math.MaxUint32))}
	}
	o, err := m.enter(&Call{Plan: Plan{op: opSave}, Sign: c.Sign, Type: c.Type})
	if err != nil {
		return nil, err
	}
	if o.err == nil && !p.dead {
		te.saving, te.to = o, to
		p.own(recovery.Key{Task: protocol.Rank(m.task), Epoch: to}, c.Sign, c.State, c.Stored, &o.fate)
		for _, r := range p.recovery.epochs.copies {
			p.compareStates(r, m.task)
		}
		if m.broken == nil {
			p.recovery.rules.Save(protocol.Rank(m.task), to, te.balance)
			p.carryOut()
		}
	}
	waited := o.await(ctx)
	if te.saving == o {
		te.saving = nil
		p.recovery.rules.Unsaved(protocol.Rank(m.task))
	}
	if err := o.end(saveName, waited); err != nil {
		if waited != nil {
			m.abandon(saveName)
		}
		return nil, err
	}
	return p.enterEpoch(m.task), nil
}

// compareStates makes a misuse of a state that is of another type than what a task of this process
// saves: who runs a task again could not read it. A state is compared where there is a copy of it: when the copy
// comes, or the task saves, and so before the epoch is committed.
func (p *Process) compareStates(r *replica, task int) {
	te := &p.recovery.epochs.tasks[task]
	if r.key.Name != 0 || te.saving == nil || te.to != r.key.Epoch || te.saving.sign == r.sign {
		return
	}
	te.saving.m.misuse(nil, saveName, nil, "task %d saves a value of another type than task %d", r.key.Task, task)
}

// saves tells why the task cannot save its state, if it cannot.
func (m *Member) saves() error {
	if err := m.usable(saveName); err != nil {
		return err
	}
	at := m.p.recovery.epochs.tasks[m.task].at
	if m.group == world && uint64(m.epoch) == at {
		return nil
	}
	return &Failure{Op: saveName, Tasks: []int{m.task}, Err: ErrMismatch, Text: fmt.Sprintf("task %d calls Save on a fork or a group; allowed: on the task that its function was given", m.task)}
}

// Resume is the first Save of a task that is run again: it returns the state that the task
// goes on from, and the group in which it does. If no epoch is committed, the group is
// nil: the task saves as the others do. The state is nil if it is not kept here.
func (m *Member) Resume(ctx context.Context, sign uint64) (state []byte, epoch uint64, next *Member, err error) {
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	if err := m.saves(); err != nil {
		return nil, 0, nil, err
	}
	te := &p.recovery.epochs.tasks[m.task]
	if !p.reran(m.task) || te.at > 0 {
		return nil, 0, nil, nil
	}
	p.count(m.task, saveName, nil)
	var here bool
	err = m.awaitRules(ctx, saveName, func() (known bool) {
		epoch, here, known = p.recovery.rules.Resume(protocol.Rank(m.task))
		return known
	})
	if err != nil || epoch == 0 {
		return nil, 0, nil, err
	}
	p.recovery.rules.Resumed(protocol.Rank(m.task), epoch)
	*te = taskEpoch{at: epoch, from: epoch}
	if here {
		r := p.recovery.epochs.copies[recovery.Key{Task: protocol.Rank(m.task), Epoch: epoch}]
		if err := r.typed(saveName, sign); err != nil {
			return nil, 0, nil, err
		}
		if state = r.value; state == nil { // it came, and is empty
			state = []byte{}
		}
	}
	return state, epoch, p.enterEpoch(m.task), nil
}

// Lose gives up the task: there is no copy of its state.
func (m *Member) Lose(why string) error {
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	return m.lose(saveName, why)
}

// lose gives up the task.
func (m *Member) lose(op, why string) error {
	m.p.tellLost(why, m.task)
	return &Failure{Op: op, Tasks: []int{m.task}, Err: ErrLost, Text: fmt.Sprintf("task %d is lost: %s", m.task, why)}
}

// Epoch is the number of the epoch that the group is of.
func (m *Member) Epoch() uint64 { return uint64(m.epoch) }

// Later is a group of the first epoch as it is in a later one.
func (m *Member) Later(epoch uint64) *Member {
	m.p.engine.Lock()
	defer m.p.engine.Unlock()
	return m.p.enterGroup(scope{m.group, uint32(epoch)}, m.task, m.tasks)
}
