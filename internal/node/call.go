package node

import (
	"context"
	"fmt"

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
func (m *Member) Do(ctx context.Context, c Call) (Result, error) {
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
		m.seq++ // it has called it, as the others have
		m.abandon(name)
		return Result{}, err
	}
	if m.aborted() {
		return Result{}, &Failure{Op: name, Err: ErrAborted}
	}
	if !c.Keep {
		clear(m.blocks) // of the last result, which may be large
	}
	o, err := m.enter(&c)
	if err != nil {
		return Result{}, err
	}
	err = o.await(ctx)
	var result Result
	delivered, failure := o.delivered, o.err
	if delivered {
		result = o.result()
	}
	m.fate = o.fate
	o.leave()
	switch {
	case p.dead:
		return Result{}, ErrKilled
	case delivered:
		return result, nil
	case failure != nil:
		return Result{}, failure
	default:
		return Result{}, &Failure{Op: name, Err: err}
	}
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
		m.announce(&Failure{Op: op, Tasks: []int{m.task}, Err: ErrMisuse, Text: fmt.Sprintf("task %d has given up operation %d of its group, %s", m.task, m.seq, op)})
	}
}

// await waits for the result.
func (o *operation) await(ctx context.Context) (err error) {
	p := o.m.p
	for !o.delivered && o.err == nil && err == nil && !p.dead {
		if o.work > 0 {
			err = o.userWork(ctx)
			continue
		}
		o.w = p.engine.Waiter()
		err = p.engine.Wait(ctx, o.w)
		p.engine.Free(o.w)
		o.w = nil
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
		f := m.mismatch(o.informant, o.plan, o.sign, *c)
		o.err, o.delivered = f, false // what came was not what the task calls
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
		o.fail(&Failure{Tasks: []int{m.task}, Err: ErrGone, Text: fmt.Sprintf("task %d was run again, and what it was sent in mode Plain is not kept", m.task)})
	}
	if rank, ok := m.doomed[o.seq]; ok {
		delete(m.doomed, o.seq)
		o.fail(m.goneFailure("", rank))
	}
	if len(m.pending) > 0 {
		m.answerPending()
	}
	return o, nil
}
