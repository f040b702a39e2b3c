package runtime

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
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
	sweep     recovery.Sweep
	committed uint64      // as far as this process has acted on it
	tasks     []taskEpoch // by task
	members   []*Member   // of epochs after the first
	copies    map[copyKey]*replica
	backups   int64         // bytes of the copies that are backups of reductions
	drawn     drawn         // values of Once
	coming    []*incoming   // copies of which the rest is on its way
	waiting   []*waiter     // for what is committed, or for copies
	told      protocol.Time // when the host was last told
}

// taskEpoch is where a task of this process is.
type taskEpoch struct {
	at      uint64     // the epoch that it is in
	from    uint64     // the one that this attempt has resumed in: an earlier one may have been there
	to      uint64     // the one that it saves
	saving  *operation // the Save that it waits in
	state   *replica   // what it saves
	balance int64      // messages that it sent in the epoch less those that it received
	spare   []byte     // memory of a state that is not needed any more
	moved   bool       // of any process: the view that is open has given it to another
}

// initEpochs begins with epoch 0.
func (p *Process) initEpochs() {
	e := &p.epochs
	e.tasks = make([]taskEpoch, len(p.owner))
	e.copies = map[copyKey]*replica{}
	v := p.views.sight.View
	e.sweep.Init(protocol.Rank(p.cfg.Rank), v.Number, ids(v))
	p.saved()
}

// ids are those of a view's members.
func ids(v *membership.View) []protocol.Rank {
	all := make([]protocol.Rank, len(v.Members))
	for i, m := range v.Members {
		all[i] = m.ID
	}
	return all
}

// epochsView has the sweep begin anew in a view, and copies made again that are lost.
func (p *Process) epochsView(v *membership.View) {
	if !p.replays() || p.dead || p.closed {
		return
	}
	s := &p.epochs.sweep
	s.Commit(v.Epoch)
	s.NewView(v.Number, ids(v))
	s.Hold(p.cfg.Moves && v.Members[0] == p.views.state.Self() && p.views.state.Unbalanced())
	p.copyAgain()
	p.saved()
	p.stepSweep()
	p.lookEpochs()
}

// stepSweep sends what the sweep has to send, and acts on what is committed.
func (p *Process) stepSweep() {
	s := &p.epochs.sweep
	for to, m, ok := s.Next(); ok; to, m, ok = s.Next() {
		e := envelope{seq: m.View, extra: m.Saved, sign: m.Committed, plan: Plan{op: opSweep}}
		e.group = uint64(m.Balance)
		if m.Up {
			e.kind = sweepUp
		}
		q := p.peerAt(int(to))
		q.tellDrawn()
		q.tell(e)
	}
	if epoch, balance := s.Committed(); epoch > p.epochs.committed {
		p.commit(epoch, balance)
	}
	if epoch, ok := s.Complete(); ok {
		p.balance(epoch)
	}
}

// sweepUp marks a message of the sweep that goes up.
const sweepUp = 1

// swept takes a message of the sweep.
func (p *Process) swept(in *incoming) {
	p.epochs.sweep.Receive(protocol.Rank(in.source.rank), recovery.SweepMessage{
		View: in.seq, Up: in.kind == sweepUp, Saved: in.extra, Committed: in.sign, Balance: int64(in.group),
	})
	p.stepSweep()
	p.lookEpochs()
}

// saved tells the sweep what all tasks of this process have saved, if they have.
func (p *Process) saved() {
	e := &p.epochs
	epoch, balance := uint64(recovery.Idle), int64(0)
	for t, r := range p.owner {
		if int(r) != p.cfg.Rank || p.gone[t].dead {
			continue
		}
		te := &e.tasks[t]
		if te.saving == nil || !p.enough(te.state) {
			return
		}
		epoch = min(epoch, te.to)
		balance += te.balance
	}
	e.sweep.Save(epoch, balance)
}

// lookEpochs lets those look again who wait for what is committed or for copies.
func (p *Process) lookEpochs() {
	for _, w := range p.epochs.waiting {
		p.complete(w)
	}
	p.epochs.waiting = p.epochs.waiting[:0]
}

// awaitEpochs waits until something has changed there.
func (p *Process) awaitEpochs(ctx context.Context) error {
	w := &waiter{}
	p.epochs.waiting = append(p.epochs.waiting, w)
	return p.wait(ctx, w)
}

// awaitEpochs waits there until something holds, as long as the task can use its group.
func (m *Member) awaitEpochs(ctx context.Context, name string, holds func() bool) error {
	for !holds() {
		if err := m.p.awaitEpochs(ctx); err != nil {
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
	e := &p.epochs
	e.committed = epoch
	for t := range e.tasks {
		te := &e.tasks[t]
		o := te.saving
		if o == nil || te.to != epoch {
			continue
		}
		// A task that is lost has not received what it was sent, which is nobody's mistake.
		if balance != 0 && !slices.ContainsFunc(p.gone, func(g gone) bool { return g.dead }) {
			o.m.announce(&Failure{Op: saveName, Err: ErrMisuse, Text: unreceived(balance)})
			continue
		}
		*te = taskEpoch{at: epoch, from: te.from, spare: te.spare}
		p.enterEpoch(t)
		o.machine.notify(0, protocol.Notice{Kind: protocol.WorkDone})
		o.step()
	}
	p.dropBefore(epoch)
	if h := p.cfg.Host; h != nil && p.now()-e.told > epochEvery && p.views.sight.View.Members[0] == p.views.state.Self() {
		e.told = p.now()
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
	m := p.member(scope{world, uint32(p.epochs.tasks[task].at)}, task)
	if !m.known {
		m.join(nil)
	}
	return m
}

// dropBefore drops what is kept of the epochs before one, except the first.
func (p *Process) dropBefore(epoch uint64) {
	e := &p.epochs
	kept := e.members[:0]
	for _, m := range e.members {
		if uint64(m.epoch) >= epoch {
			kept = append(kept, m)
			continue
		}
		m.drop()
		delete(p.members, memberKey{m.scope, uint32(m.task)})
		p.history.bytes -= m.logged
	}
	clear(e.members[len(kept):])
	e.members = kept
	p.releases.kept = slices.DeleteFunc(p.releases.kept, func(m *Member) bool { return m.epoch != 0 && uint64(m.epoch) < epoch })
	e.coming = slices.DeleteFunc(e.coming, func(in *incoming) bool { return in.complete || in.source.dead })
	p.history.told = min(p.history.told, p.history.bytes)
	p.last = nil
	for key, r := range e.copies {
		if key.epoch != 0 && uint64(key.epoch) < epoch {
			if key.backup() {
				e.backups -= int64(len(r.value))
			}
			r.drop(p)
			delete(e.copies, key)
		}
	}
	p.dropDrawn(epoch)
	for key := range p.aborts.records {
		if key.epoch != 0 && uint64(key.epoch) < epoch {
			delete(p.aborts.records, key)
		}
	}
}

// stale tells whether a message is of an epoch that was dropped.
func (p *Process) stale(in *incoming) bool {
	return in.epoch != 0 && uint64(in.epoch) < p.epochs.committed
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
	p.lock()
	defer p.unlock()
	if err := m.saves(); err != nil {
		return nil, err
	}
	if err := m.catchUp(ctx, saveName); err != nil {
		m.seq++
		m.abandon(saveName)
		return nil, err
	}
	te := &p.epochs.tasks[m.task]
	to := te.at + 1
	if c.Epoch > 0 {
		to = c.Epoch
	}
	if to > math.MaxUint32 {
		return nil, &Failure{Op: saveName, Tasks: []int{m.task}, Err: ErrMisuse, Text: fmt.Sprintf("epoch %d; allowed: up to %d", to, uint32(math.MaxUint32))}
	}
	o, err := m.enter(&Call{Plan: Plan{op: opSave}, Sign: c.Sign, Type: c.Type})
	if err != nil {
		return nil, err
	}
	if o.err == nil && !p.dead {
		te.saving, te.to = o, to
		te.state = p.own(copyKey{uint32(m.task), uint32(to), 0}, c.Sign, c.State, c.Stored, &o.fate)
		for _, r := range p.epochs.copies {
			p.compareStates(r, m.task)
		}
		if m.broken == nil {
			p.saved()
			p.stepSweep()
		}
	}
	err = o.await(ctx)
	delivered, failure := o.delivered, o.err
	if te.saving == o {
		te.saving, te.state = nil, nil
	}
	o.leave()
	switch {
	case p.dead:
		return nil, ErrKilled
	case delivered:
		return p.enterEpoch(m.task), nil
	case failure != nil:
		return nil, failure
	}
	m.abandon(saveName)
	return nil, &Failure{Op: saveName, Err: err}
}

// compareStates makes a misuse of a state that is of another type than what a task of this process
// saves: who runs a task again could not read it. A state is compared where there is a copy of it: when the copy
// comes, or the task saves, and so before the epoch is committed.
func (p *Process) compareStates(r *replica, task int) {
	te := &p.epochs.tasks[task]
	if !r.have || r.key.key != 0 || te.saving == nil || te.to != uint64(r.key.epoch) || te.state.sign == r.sign {
		return
	}
	te.saving.m.announce(&Failure{Op: saveName, Err: ErrMisuse, Text: fmt.Sprintf("task %d saves a value of another type than task %d", r.key.task, task)})
}

// saves tells why the task cannot save its state, if it cannot.
func (m *Member) saves() error {
	if err := m.usable(saveName); err != nil {
		return err
	}
	at := m.p.epochs.tasks[m.task].at
	if m.group == world && uint64(m.epoch) == at {
		return nil
	}
	return &Failure{Op: saveName, Tasks: []int{m.task}, Err: ErrMisuse, Text: fmt.Sprintf("task %d calls Save on a fork or a group; allowed: on the task that its function was given", m.task)}
}

// Resume is the first Save of a task that is run again: it returns the state that the task
// goes on from, and the group in which it does. If no epoch is committed, the group is
// nil: the task saves as the others do. The state is nil if it is not kept here.
func (m *Member) Resume(ctx context.Context, sign uint64) (state []byte, epoch uint64, next *Member, err error) {
	p := m.p
	p.lock()
	defer p.unlock()
	if err := m.saves(); err != nil {
		return nil, 0, nil, err
	}
	e := &p.epochs
	if !p.reran(m.task) || e.tasks[m.task].at > 0 {
		return nil, 0, nil, nil
	}
	p.count(m.task, saveName, nil)
	err = m.awaitEpochs(ctx, saveName, func() bool {
		return e.sweep.Known() && (e.committed == 0 || p.told(copyKey{uint32(m.task), uint32(e.committed), 0}))
	})
	if err != nil {
		return nil, 0, nil, err
	}
	if e.committed == 0 {
		return nil, 0, nil, nil
	}
	e.tasks[m.task] = taskEpoch{at: e.committed, from: e.committed}
	if r := e.copies[copyKey{uint32(m.task), uint32(e.committed), 0}]; r != nil && r.have {
		if err := r.typed(saveName, sign); err != nil {
			return nil, 0, nil, err
		}
		if state = r.value; state == nil { // it came, and is empty
			state = []byte{}
		}
	}
	return state, e.committed, p.enterEpoch(m.task), nil
}

// Lose gives up the task: there is no copy of its state.
func (m *Member) Lose(why string) error {
	p := m.p
	p.lock()
	defer p.unlock()
	return m.lose(saveName, why)
}

// lose gives up the task.
func (m *Member) lose(op, why string) error {
	m.p.tellLost(why, m.task)
	return &Failure{Op: op, Tasks: []int{m.task}, Err: ErrGone, Text: fmt.Sprintf("task %d is lost: %s", m.task, why)}
}

// Epoch is the number of the epoch that the group is of.
func (m *Member) Epoch() uint64 { return uint64(m.epoch) }

// Later is a group of the first epoch as it is in a later one.
func (m *Member) Later(epoch uint64) *Member {
	p := m.p
	p.lock()
	defer p.unlock()
	l := p.member(scope{m.group, uint32(epoch)}, m.task)
	if !l.known {
		l.join(m.tasks)
	}
	return l
}

// saveMachine is a task's machine in Save: it waits until the process says that the epoch
// is committed.
type saveMachine struct {
	all  []protocol.Rank
	done int
}

func (s *saveMachine) receive(protocol.Time, protocol.Rank, word) {}

func (s *saveMachine) notify(_ protocol.Time, n protocol.Notice) {
	if n.Kind == protocol.WorkDone {
		s.done = max(s.done, 1)
	}
}

func (s *saveMachine) next(protocol.Time) action {
	switch s.done {
	case 0:
		return action{kind: protocol.Idle}
	case 1:
		s.done++
		return action{kind: protocol.Deliver}
	}
	return action{kind: protocol.Done}
}

func (s *saveMachine) reset(protocol.Rank) { s.done = 0 }

func (s *saveMachine) awaits() []protocol.Rank { return s.all }

// saveMachines returns the factory of Save among p tasks.
func saveMachines(p int) factory {
	all := make([]protocol.Rank, p)
	for r := range all {
		all[r] = protocol.Rank(r)
	}
	return func(protocol.Rank) machine { return &saveMachine{all: all} }
}
