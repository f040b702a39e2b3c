package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-go/coppice/internal/large"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Operations by schedule: package collective says what a task sends and receives,
// step by step, and keeps the data; this is how its steps meet messages.

// stepper is a task's machine in an operation by schedule, with its data.
type stepper struct {
	schedule *collective.Schedule
	program  *collective.Program
	state    collective.StepState
	store    collective.Store
}

// schedule returns the schedule of a plan among p tasks.
func (p Plan) schedule(tasks int, hosts []protocol.Rank) (*collective.Schedule, error) {
	if int(p.op) >= len(ops) || ops[p.op].schedule == 0 {
		return nil, errNoSuch(p.op)
	}
	return collective.New(collective.Spec{
		Op: ops[p.op].schedule, Algorithm: collective.Algorithm(p.tree), P: tasks,
		Root: protocol.Rank(min(p.root, 1<<31-1)), Spans: int(p.treeArg), AnyOrder: p.is(anyOrder),
		Failures: int(p.fixArg), Hosts: hosts,
	})
}

// schedules returns the factory of an operation by schedule.
func schedules(plan Plan, p int, hosts []protocol.Rank) (factory, error) {
	c, err := plan.schedule(p, hosts)
	if err != nil {
		return nil, err
	}
	var program *collective.Program // every task has a factory of its own
	return func(self protocol.Rank) machine {
		if program == nil {
			g := c.Program(self)
			program = &g
		}
		s := &stepper{schedule: c, program: program}
		s.reset(self)
		return s
	}, nil
}

func (s *stepper) reset(protocol.Rank) { s.state.Reset(s.program.Steps) }

func (s *stepper) receive(now protocol.Time, from protocol.Rank, w word) {
	s.schedule.Receive(&s.state, now, from, collective.StepMessage{Lane: w.round})
}

func (s *stepper) notify(now protocol.Time, n protocol.Notice) {
	s.schedule.Notify(&s.state, now, n)
}

func (s *stepper) next(now protocol.Time) action {
	a := s.schedule.Next(&s.state, now)
	return action{Kind: a.Kind, To: a.To, Msg: word{extra: uint64(a.Msg.Step), round: a.Msg.Lane}}
}

func (s *stepper) awaits() []protocol.Rank { return s.schedule.Awaits(&s.state) }

// equip gives a machine by schedule its store.
func (o *operation) equip(c *Call) {
	s, ok := o.machine.(*stepper)
	if !ok {
		return
	}
	o.sched = s
	var kind collective.Kind
	if c != nil {
		kind = c.Kind
	}
	kind.New = large.New
	s.store.Reset(s.program, kind)
	s.state.Patient = o.m.p.replays()
	if o.m.p.logs() && !o.works && !o.plan.is(unlogged) {
		s.store.SetMemory(o)
	}
}

// resume goes on with an operation by schedule to which the task has come, or of
// which something has.
func (o *operation) resume(c *Call) {
	if c != nil {
		if err := o.supply(c); err != nil {
			o.fail(&Failure{Tasks: []int{o.m.task}, Err: err})
			return
		}
	}
	if o.entered {
		o.sched.store.SetRoom(o.room)
		o.sched.store.SetRooms(o.rooms)
		o.machine.notify(0, protocol.Notice{Kind: protocol.Begin})
	}
	if len(o.arrived) > 0 {
		o.pieces()
	}
	o.step()
}

// supply gives the store what the task calls the operation with.
func (o *operation) supply(c *Call) error {
	s := &o.sched.store
	switch {
	case len(o.sched.program.In) == 0:
		return nil
	case o.sched.program.Segments > 0:
		s.SetVector(c.Value)
		return nil
	case o.plan.corrected() && c.Value == nil: // empty, not absent
		return s.SetBlocks([]byte{})
	case c.Values == nil:
		return s.SetBlocks(c.Value)
	}
	return s.SetBlocks(c.Values...)
}

// piece takes a message of an operation by schedule, or its beginning.
func (o *operation) piece(from int, in *incoming) {
	if o.err != nil || o.finished {
		o.m.repeated(from, in)
		return
	}
	if o.sched == nil { // the task must come to it first: it may have memory for it
		in = in.stay()
		in.arrived = nil
		o.arrived = append(o.arrived, arrival{in, from})
		return
	}
	i := o.sched.state.Match(protocol.Rank(from), in.round)
	if i < 0 {
		o.m.repeated(from, in)
		in.taken()
		return
	}
	if !o.sched.state.Fits(i) {
		// Another attempt of this task has made it possible, and this one still needs its slots.
		in = in.stay()
		in.arrived = nil
		o.early = append(o.early, arrival{in, from})
		return
	}
	s := &o.sched.store
	if s.Size() < 0 && o.plan.op == opBroadcast {
		s.SetSize(int(min(in.extra, 1<<46)))
	}
	if in.Complete() {
		o.put(i, from, in)
		if !in.passes {
			o.m.p.reuse(in)
		}
		return
	}
	in = in.stay()
	if !in.Answered() && uint64(max(s.Size(), 0)) <= roomMax && in.size <= roomMax { // what is said of sizes may be a lie
		if in.room = s.Room(&o.sched.program.Steps[i], int(in.size)); in.room != nil {
			o.filling = append(o.filling, filling{in, i})
		}
	}
	m, seq := o.m, o.seq
	in.arrived = func() {
		if o.m != m || o.seq != seq || o.sched == nil || !o.sched.state.Waits(i) {
			in.taken() // another attempt's came first
			m.repeated(from, in)
			in.discard()
			return
		}
		o.put(i, from, in)
		o.step()
	}
	if o.entered {
		in.want()
	} else {
		in.wantSoon()
		o.arrived = append(o.arrived, arrival{in, from}) // to be wanted when the task is here
	}
}

// filling is a message that is being received into memory of the result, for a step.
type filling struct {
	in   *incoming
	step int
}

// put hands what came for step i to the store and the machine. Of several attempts of who sends it
// the others do not write to its memory any more: from now on it is the task's.
func (o *operation) put(i, from int, in *incoming) {
	in.taken()
	o.filling = slices.DeleteFunc(o.filling, func(f filling) bool {
		if f.step == i && f.in != in {
			f.in.drop()
		}
		return f.step == i
	})
	if o.finished || o.err != nil {
		return
	}
	o.counted()
	o.m.took(from, in)
	value := in.value
	if in.size == 0 {
		if value = []byte{}; o.sched.program.Segments == 0 && in.extra == absentBlock {
			value = nil
		}
	}
	st, s := &o.sched.program.Steps[i], &o.sched.store
	var loan int32
	passing := in.brief && len(value) > inlineMax && !o.works && o.sched.state.At() == i && s.Consumes(i)
	if !passing {
		value, loan = o.place(st, in, value)
	}
	if !o.hold(st, from, value, loan, in.shared || passing) {
		return
	}
	o.machine.receive(0, protocol.Rank(from), word{round: in.round})
	if !passing {
		return
	}
	o.step()                                                                        // combines the value where it is
	if o.sched != nil && !o.finished && o.err == nil && o.sched.state.At() <= i+1 { // not now: the next read uses that memory
		value, loan = o.place(st, in, value)
		o.hold(st, from, value, loan, in.shared)
	}
}

// hold gives the store what came for a step. It reports whether that can be.
func (o *operation) hold(st *collective.Step, from int, value []byte, loan int32, lent bool) bool {
	if err := o.sched.store.Put(st, value, lent); err != nil {
		o.fail(o.m.badSize(from, o, err))
		return false
	}
	if loan > 0 {
		o.sched.store.Lend(st, loan)
	}
	return true
}

// place moves what came for a step to where it can stay: to the memory that there
// is for it, or to memory on loan.
func (o *operation) place(st *collective.Step, in *incoming, value []byte) (placed []byte, loan int32) {
	if len(value) == 0 || !in.pooled && !in.brief {
		return value, 0
	}
	p, s := o.m.p, &o.sched.store
	room := s.Room(st, len(value))
	switch {
	case room != nil:
		in.moveTo(room)
	case in.pooled:
		in.pooled = false
		return value, o.borrow(value)
	case len(value) > inlineMax && s.Passing(st):
		m := p.engine.Buffers.Get(len(value))
		in.moveTo(m)
		return m, o.borrow(m)
	default:
		if in.settle(); in.pooled {
			in.pooled = false
			return in.value, o.borrow(in.value)
		}
	}
	return in.value, 0
}

// pieces takes what came before the task.
func (o *operation) pieces() {
	came := o.arrived
	o.arrived = nil
	for _, a := range came {
		o.piece(a.from, a.in)
	}
	if o.arrived == nil {
		clear(came)
		o.arrived = came[:0]
	}
}

// due takes the message that the present step waits for, if it came early.
func (o *operation) due() bool {
	for i, a := range o.early {
		if o.sched.state.Match(protocol.Rank(a.from), a.in.round) == o.sched.state.At() {
			o.early = slices.Delete(o.early, i, i+1)
			o.piece(a.from, a.in)
			return true
		}
	}
	return false
}

// absentBlock, as extra, says that there is no block, which is not an empty one.
const absentBlock = 1

// load is what a send carries, and what to say of it: the length of a vector of
// which it is a piece, or that a block is absent.
func (o *operation) load(step int32) (v []byte, extra uint64) {
	p := o.m.p
	st := &o.sched.program.Steps[step]
	n := o.sched.store.Bundle(st)
	if n > inlineMax {
		return o.bundled(step, n), 0
	}
	v, copied := o.sched.store.Take(st, p.groups.concat)
	switch {
	case copied:
		p.groups.concat = v // small: it is copied once more when it is sent
	case o.sched.program.Segments > 0:
		extra = uint64(max(o.sched.store.Size(), 0))
	case v == nil:
		extra = absentBlock
	}
	return v, extra
}

// bundle is what a send carries that was put together.
type bundle struct {
	memory []byte
	at     int32 // the step
	stays  bool  // it is the log's
}

// bundled puts together what a send carries, n bytes, unless the step before sent the
// same.
func (o *operation) bundled(step int32, n int) []byte {
	p, b := o.m.p, &o.bundle
	steps := o.sched.program.Steps
	if b.memory != nil && b.at == step-1 && slices.Equal(steps[step-1].Slots, steps[step].Slots) {
		b.at = step
		return b.memory
	}
	*b = bundle{at: step}
	var room []byte
	if p.logs() && !o.plan.is(unlogged) {
		room = o.Lasting(steps[step].Peer, n)
		b.stays = room != nil
	}
	if room == nil && p.hub() == nil {
		room = p.engine.Buffers.Get(n)
	}
	p.engine.Work(n)
	b.memory, _ = o.sched.store.Take(&steps[step], room)
	if !b.stays {
		o.bundles = append(o.bundles, b.memory)
	}
	return b.memory
}

// fold combines values: at once, or, if it takes code of the user or long, by the task.
func (o *operation) fold(step int32) (wait bool) {
	p := o.m.p
	if o.works || o.waits() && !o.left && p.engine.Worked()+o.sched.store.Bytes(&o.sched.program.Steps[step]) > foldMax {
		o.work = int(step)
		p.engine.Complete(o.w)
		return true
	}
	return o.foldNow(step)
}

// foldMax is how many bytes are worked on while the lock is held, if something is combined. A task
// that has given up the operation combines nothing more.
var foldMax = 2 << 20 // tests have less

// foldNow combines values.
func (o *operation) foldNow(step int32) (failed bool) {
	st := &o.sched.program.Steps[step]
	o.m.p.engine.Work(o.sched.store.Bytes(st))
	if err := o.sched.store.Fold(st); err != nil {
		o.cannotFold(err)
		return true
	}
	o.machine.notify(0, protocol.Notice{Kind: protocol.WorkDone})
	return false
}

// foldUnlocked combines values without the lock.
func (o *operation) foldUnlocked(st *collective.Step) error {
	s := &o.sched.store
	for i := range st.Slots {
		f, err := s.Operands(st, i)
		if err == nil {
			err = o.m.p.unlocked(func() error { return f.Combine() }, o.leave)
		}
		if err != nil {
			return err
		}
		s.Combined(st, i, f)
	}
	return nil
}

// userWork combines values without the lock, most likely by the user's code, unless there is a backup
// of what it would make.
func (o *operation) userWork(ctx context.Context) error {
	p := o.m.p
	spared, waited := o.restore(ctx, o.work)
	if waited != nil || o.err != nil || p.dead {
		return waited
	}
	if !spared {
		began := time.Now()
		if err := o.foldUnlocked(&o.sched.program.Steps[o.work]); err != nil {
			o.cannotFold(err)
			return nil
		}
		o.backUp(o.work, time.Since(began))
	}
	o.work = 0
	o.machine.notify(0, protocol.Notice{Kind: protocol.WorkDone})
	o.step()
	return nil
}

// cannotFold fails the operation, for all tasks: they would wait for this one.
func (o *operation) cannotFold(err error) {
	m := o.m
	f := &Failure{Tasks: []int{m.task}, Err: err}
	if errors.Is(err, collective.ErrSize) {
		f.Err, f.Text = ErrMismatch, fmt.Sprintf("task %d: %v", m.task, err)
	}
	o.fail(f)
	m.announce(&Failure{Op: f.Op, Tasks: f.Tasks, Err: ErrMismatch, Text: fmt.Sprintf("task %d: %v", m.task, err)})
}

// result is what the task gets.
func (o *operation) result() Result {
	m := o.m
	if o.sched == nil {
		return Result{Value: o.value, Shared: o.shared || !o.finished || o.plan.remembered()}
	}
	var r Result
	switch g := o.sched.program; {
	case g.Out == nil:
	case o.plan.corrected():
		r.Value, r.Shared = o.sched.outcome()
		r.Shared = r.Shared || o.plan.remembered()
	case g.Segments > 0:
		r.Value, r.Shared = o.sched.store.Vector()
	default:
		m.blocks, m.lent = o.sched.store.Blocks(m.blocks[:0], m.lent[:0])
		r.Values, r.Lent = m.blocks, m.lent
	}
	return r
}

// badSize is what a value is that does not fit those of others.
func (m *Member) badSize(from int, o *operation, err error) *Failure {
	tasks := []int{m.task, m.taskOf(from)}
	slices.Sort(tasks)
	return m.misuse(nil, opName(o.plan.op), tasks, "tasks %d and %d: %v", m.task, m.taskOf(from), err)
}
