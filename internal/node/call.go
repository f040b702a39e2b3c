package node

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/internal/node/engine"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Call is a collective operation as a task calls it.
//
// Values of up to inlineMax bytes are copied when they are sent; larger ones must
// not change any more. Memory for results is for whoever may write it although
// what was received is passed on.
type Call struct {
	Plan   Plan
	Value  []byte   // of the root, or of each task
	Values [][]byte // several blocks; a nil one is absent
	Room   []byte   // where the result may be received
	Rooms  [][]byte // where each of the resulting blocks may be
	Sign   uint64   // signature of the value's type
	Type   string   // its name
	Kind   collective.Kind
	Works  bool   // Kind.Fold is code of the user
	Backup Backup // of what it makes
	Again  bool   // the second half of an operation, which counts as one
	Half   bool   // the first, of an agreed one
	Agreed bool   // all complete it or none
	Copies bool   // the result is copied before the task calls anything else
	Keep   bool   // the task has still to take what the operation before has brought
	Name   string // of the operation of which it is a part; empty: it is one
}

// name is what the operation is called.
func (c *Call) name() string {
	if c.Name != "" {
		return c.Name
	}
	return opName(c.Plan.op)
}

// Op is what the operation is called.
func (c *Call) Op() string { return c.name() }

// BarrierPlan is the plan of a barrier.
func BarrierPlan() Plan { return Plan{op: opBarrier} }

// Result is what an operation brings a task.
// It is valid until the task's next one.
type Result struct {
	Value  []byte
	Shared bool // others read the value's memory, too
	Values [][]byte
	Lent   []bool // the same of each block
}

// Do carries out an operation that all tasks of the group call.
func (m *Member) Do(ctx context.Context, c *Call) (Result, error) {
	p := m.p
	name := c.name()
	p.engine.Lock()
	defer p.engine.Unlock()
	if err := m.usable(name); err != nil {
		return Result{}, err
	}
	if !c.Again && m.agreed != m.seq+1 {
		m.agreed = 0
	}
	if err := m.catchUp(ctx, name); err != nil {
		return Result{}, err
	}
	if m.aborted() {
		return Result{}, &Failure{Op: name, Err: ErrAborted}
	}
	if !c.Keep {
		clear(m.blocks) // of the last result, which may be large
	}
	o, err := m.enter(c)
	if err != nil {
		return Result{}, err
	}
	err = o.await(ctx)
	var result Result
	if o.delivered {
		result = o.result()
	}
	return result, o.end(name, err)
}

// end has the task leave the operation, and returns why it has brought nothing.
func (o *operation) end(name string, waited error) error {
	m, delivered, failure := o.m, o.delivered, o.err
	m.fate = o.fate
	o.leave()
	switch {
	case m.p.dead:
		return ErrKilled
	case delivered:
		return nil
	case failure != nil:
		return failure
	}
	return &Failure{Op: name, Err: waited}
}

// Abandon tells the group that this task has given up an operation in a way that
// leaves the others without it: all that the group calls fails from now on.
func (m *Member) Abandon(op collective.Op) {
	m.p.engine.Lock()
	defer m.p.engine.Unlock()
	m.abandon(op.String())
}

func (m *Member) abandon(op string) {
	if m.usable(op) == nil {
		m.announce(&Failure{Op: op, Tasks: []int{m.task}, Err: ErrMismatch, Text: fmt.Sprintf("task %d has given up operation %d of its group, %s", m.task, m.seq, op)})
	}
}

// entry is what the operations and the agreements of a task have in common: the task enters one, and waits for
// what it brings.
type entry struct {
	fate
	m         *Member
	sign      uint64
	entered   bool // by the task
	delivered bool
	err       *Failure
	w         *engine.Waiter
	endless   bool // only the end of the job ends its context
	patrols   int  // that saw it wait
}

// waits tells whether the task waits.
func (w *entry) waits() bool { return w.entered && !w.delivered && w.err == nil }

// sleep waits until there is news.
func (w *entry) sleep(ctx context.Context) error {
	e := w.m.p.engine
	w.w = e.Waiter()
	w.endless = w.m.p.endless(ctx)
	err := e.Wait(ctx, w.w)
	e.Free(w.w)
	w.w = nil
	return err
}

// unlocked runs code of the user without the lock. If it panics, the task may survive that, but not what it was
// needed for, which the task gives up; nil: nothing to give up.
func (p *Process) unlocked(f func() error, giveUp func()) (err error) {
	p.engine.Unlock()
	returned := false
	defer func() {
		p.engine.Lock()
		if !returned && giveUp != nil {
			giveUp()
		}
	}()
	err = f()
	returned = true
	return err
}

// await waits for the result.
func (o *operation) await(ctx context.Context) (err error) {
	p := o.m.p
	for !o.delivered && o.err == nil && err == nil && !p.dead {
		if o.work > 0 {
			err = o.userWork(ctx)
			continue
		}
		err = o.sleep(ctx)
	}
	if o.work > 0 && !o.works && o.err == nil && !p.dead { // it gives up; the others need it all the same
		step := o.work
		o.work = 0
		if !o.foldNow(int32(step)) {
			o.step()
		}
	}
	return err
}

// enter begins the task's next operation.
func (m *Member) enter(c *Call) (*operation, error) {
	if !c.Keep {
		m.reclaim()
	}
	m.seq++
	o := m.ops.get(m.seq)
	if o == nil {
		if _, err := m.factory(c.Plan); err != nil {
			m.seq--
			return nil, err
		}
		o = m.newOperation(m.seq, c.Plan)
	}
	o.entered, o.typ, o.works, o.part, o.backup = true, c.Type, c.Works, c.Name, c.Backup
	o.room, o.rooms, o.copies = c.Room, c.Rooms, c.Copies
	if o.informant >= 0 && (!o.plan.same(c.Plan) || o.sign != c.Sign) {
		heard := &incoming{source: m.peer(o.informant), envelope: envelope{from: uint32(m.taskOf(o.informant)), seq: o.seq, sign: o.sign, plan: o.plan}}
		o.plan, o.sign = c.Plan, c.Sign
		o.err, o.delivered = m.mismatch(o.informant, heard, o), false // what came was not what the task calls
		return o, nil
	}
	o.sign = c.Sign
	m.calls(c)
	if o.plan.remembered() {
		o.room = nil // others may ask for what would be in it, later
	}
	if o.begins() {
		o.plan = c.Plan
		o.value, o.hasValue, o.shared = c.Value, true, true
	}
	if !c.Again {
		m.p.count(m.task, c.name(), &o.fate)
	} else {
		m.p.countOn(&o.fate, m.fate)
	}
	o.start(c)
	o.needs()
	if o.plan.is(unlogged) && m.p.reran(m.task) && m.begunBefore() {
		o.fail(&Failure{Tasks: []int{m.task}, Err: ErrLost, Text: fmt.Sprintf("task %d was run again, and what it was sent in mode Plain is not kept", m.task)})
	}
	if rank, ok := m.doomed[o.seq]; ok {
		delete(m.doomed, o.seq)
		o.fail(m.goneFailure("", rank))
	}
	m.answerPending()
	return o, nil
}
