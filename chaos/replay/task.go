package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// task is one attempt of a task: a running program. Its operations come one after the other; what comes early
// is kept, what comes twice is dropped by its name, and what goes to other processes is logged.
type task struct {
	memory  *Memory
	number  protocol.Rank
	view    uint64   // in which the attempt began
	first   bool     // it is the task's first attempt
	op      int      // the present operation
	epoch   uint64   // the present epoch
	count   int32    // operations of the epoch that are over
	saving  bool     // it has called Save, and waits
	drawn   bool     // it has the value of Once that comes before the present operation
	balance int64    // messages that it has sent in the epoch, less those received
	digest  uint64   // of everything that it has got
	entry   uint64   // digest when it came to the present operation, if that is in parts
	begun   bool     // its input is in the store
	digests []uint64 // after each operation that is over
	aborted []int    // operations that were aborted
	past    uint64   // hash of aborted
	onces   []uint64 // values of Once
	steps   collective.StepState
	barrier collective.BarrierState
	store   collective.Store
	input   [][]byte
	lent    []bool   // memory for what the store reports about its result
	moves   []move   // made with the store in the present operation
	came    uint64   // hash of what came in it, if it is a barrier, in any order
	sends   int      // sends in the present operation, if it is a barrier or a stream
	got     [][]byte // what came in the present operation, if it is a stream

	idle  uint64     // the process's changes when the task could do nothing; 0: not known
	early [][]*Frame // by operation
	logs  []epochLog // what went to others, by epoch
	out   []*Frame   // what is to go, in order

	casts   []*cast
	pending []*Frame      // questions that wait for an answer
	wake    protocol.Time // before it the task's broadcasts have nothing to do, unless something comes for them

	accounts []*ahead
	voted    bool // it takes part in the present operation, which is agreed

	streams []*stream
	later   []said // messages of streams in epochs to which it has not come

	returned, announced bool
	seen                Seen
	err                 error
}

// move is something done with the store: redoing all moves makes a copy of the store.
type move struct {
	step  int32
	frame *Frame // what was put in; nil: the step's own action
}

// errPast means that a message comes from a task that knows of other aborts than its receiver.
var errPast = errors.New("a message of one who knows of other aborts")

// errUnreached means that a corrected operation has no result although all tasks take part in it.
var errUnreached = errors.New("a result that nobody has")

// firstView is the number of the view in which all first attempts begin.
const firstView = 1

// newTask begins an attempt of a task.
func (j *Job) newTask(number protocol.Rank, view uint64) *task {
	t, n := j.memory.tasks.one(), len(j.program.Calls)
	early := slices.Grow(t.early, max(n-len(t.early), 0))[:n]
	for i := range early {
		early[i] = early[i][:0]
	}
	*t = task{
		memory: j.memory, number: number, view: view, first: view == firstView, early: early, digests: j.memory.words.list(n)[:0],
		steps: t.steps, store: t.store, lent: t.lent, moves: t.moves[:0], logs: t.logs[:0], out: t.out[:0], streams: t.streams[:0],
		casts: t.casts[:0], accounts: t.accounts[:0], wake: protocol.Never,
	}
	return t
}

// accept takes a message.
func (t *task) accept(g *Program, f *Frame) {
	t.idle = 0
	switch at := g.index(f.Name); {
	case at < len(g.Calls) && g.Calls[at].runners != nil:
		t.hear(g, at, f)
	case t.returned || at < t.op: // it has come before, or the operation could not be over
	case at == t.op && t.begun && (g.Calls[at].barrier != nil || t.fits(f)):
		t.put(g, f)
	case at < len(t.early) && !slices.ContainsFunc(t.early[at], func(e *Frame) bool { return e.Name == f.Name }):
		t.early[at] = append(t.early[at], f)
	}
}

// fits reports whether a message of the present operation can be put in now. A duplicate can: nothing
// happens.
func (t *task) fits(f *Frame) bool {
	i := t.steps.Match(f.From, f.Lane)
	return i < 0 || t.steps.Fits(i)
}

// catchUp puts in a message that came too early, if it fits now.
func (t *task) catchUp(g *Program) bool {
	early := t.early[t.op]
	i := slices.IndexFunc(early, t.fits)
	if i < 0 {
		return false
	}
	f := early[i]
	t.early[t.op] = slices.Delete(early, i, i+1)
	t.put(g, f)
	return true
}

// put takes a message of the present operation.
func (t *task) put(g *Program, f *Frame) {
	c := &g.Calls[t.op]
	if f.Past != t.past && t.err == nil {
		t.err = fmt.Errorf("%w: %v", errPast, f.Name)
	}
	if c.barrier != nil {
		before := t.barrier
		c.barrier.Receive(&t.barrier, 0, f.From, collective.BarrierMessage(f.Lane))
		if t.barrier != before {
			t.came += protocol.Mix(f.Key(), 1)
		}
		return
	}
	i := t.steps.Match(f.From, f.Lane)
	if i < 0 { // it has come before
		return
	}
	t.counts(c, -1)
	t.do(c, move{int32(i), f})
	c.schedule.Receive(&t.steps, 0, f.From, collective.StepMessage{Lane: f.Lane})
}

// counts adds to the balance of the epoch, unless the operation may be aborted or is corrected: then not
// everything that is sent is received.
func (t *task) counts(c *Call, messages int64) {
	if !c.Agreed && c.failures == 0 {
		t.balance += messages
	}
}

// do makes a move and remembers it.
func (t *task) do(c *Call, m move) {
	t.moves = append(t.moves, m)
	if err := t.redo(c, m); err != nil && t.err == nil {
		t.err = err
	}
}

// redo makes a move with the store.
func (t *task) redo(c *Call, m move) error {
	st := &c.programs[t.number].Steps[m.step]
	switch {
	case m.frame != nil:
		v := m.frame.Value
		if room := t.store.Room(st, len(v)); room != nil && len(v) > 0 {
			copy(room, v)
			return t.store.Put(st, room, false)
		}
		return t.store.Put(st, t.memory.clone(v), false)
	case st.Kind == collective.FoldStep:
		return t.store.Fold(st)
	default:
		t.store.Take(st, nil)
		return nil
	}
}

// begin begins the present operation.
func (t *task) begin(g *Program) {
	c := &g.Calls[t.op]
	if t.begun, t.moves, t.came, t.sends = true, t.moves[:0], 0, 0; c.part == 0 {
		t.entry = t.digest
	}
	t.lookPending(g)
	if c.runners != nil {
		t.enterCast(g)
	} else if c.barrier != nil {
		c.barrier.Init(&t.barrier, t.number, 0)
		c.barrier.Notify(&t.barrier, 0, protocol.Notice{Kind: protocol.Begin})
	} else if c.Op == Stream {
		t.input, t.got = g.blocks(t.op, t.number, t.last(), c.Spans), t.memory.blocks.list(c.Spans)[:0]
	} else {
		t.steps.Reset(c.programs[t.number].Steps)
		t.steps.Patient = true // if its process dies, the task is run again
		t.input = g.given(t.op, t.number, t.last())
		t.supply(c)
		c.schedule.Notify(&t.steps, 0, protocol.Notice{Kind: protocol.Begin})
	}
	early := t.early[t.op]
	t.early[t.op] = early[:0]
	for _, f := range early {
		t.accept(g, f)
	}
}

// last is the digest of all results so far.
func (t *task) last() uint64 { return t.digest }

// frame returns a message of the present operation.
func (t *task) frame(to protocol.Rank, lane uint16, value []byte) *Frame {
	f := t.memory.frames.one()
	*f = Frame{Name: Name{t.count, t.number, to, lane, uint16(t.epoch)}, Value: value, Past: t.past}
	return f
}

// given returns what a task gives to an operation: blocks, or one vector.
func (g *Program) given(at int, task protocol.Rank, digest uint64) [][]byte {
	c := &g.Calls[at]
	p := &c.programs[task]
	switch {
	case p.Segments == 0 && c.failures == 0:
		return g.blocks(at, task, digest, len(p.In))
	case len(p.In) == 0:
		return nil
	}
	return append(g.memory.blocks.list(1)[:0], g.vector(at, task, digest))
}

// supply sets up the store for the present operation, with what the task gives.
func (t *task) supply(c *Call) {
	p := &c.programs[t.number]
	t.store.Reset(p, c.kind)
	switch {
	case p.Segments == 0:
		t.err = t.store.SetBlocks(t.input...)
		return
	case t.input == nil:
		t.store.SetSize(8 * c.Elems)
	default:
		t.store.SetVector(t.input[0])
	}
	if (t.op+int(t.number))%2 == 0 { // some users give memory for the result
		t.store.SetRoom(t.memory.bytes.list(8 * c.Elems))
	}
}

// advance makes the task's next step, and passes what is to be sent to send. It returns false if the task
// waits or has returned.
func (t *task) advance(g *Program, send func(f *Frame)) bool {
	switch {
	case t.returned:
		return false
	case t.op == len(g.Calls):
		t.returned = true
		return true
	case !t.begun:
		t.begin(g)
		return true
	}
	c := &g.Calls[t.op]
	if c.barrier != nil {
		return t.pass(g, c, send)
	}
	if c.Op == Stream {
		return t.converse(g, c, send)
	}
	if c.runners != nil {
		return t.receives(g)
	}
	a := c.schedule.Next(&t.steps, 0)
	switch a.Kind {
	case protocol.Send, protocol.Correct:
		st := &c.programs[t.number].Steps[a.Msg.Step]
		t.moves = append(t.moves, move{step: a.Msg.Step})
		v, copied := t.store.Take(st, t.memory.bytes.list(t.store.Bundle(st)))
		if !copied {
			v = t.memory.clone(v) // the log keeps it, and the store may receive in its place
		}
		t.counts(c, 1)
		send(t.frame(a.To, a.Msg.Lane, v))
	case protocol.Work:
		t.do(c, move{step: a.Msg.Step})
		c.schedule.Notify(&t.steps, 0, protocol.Notice{Kind: protocol.WorkDone})
	case protocol.Deliver:
		if t.finish(g, c); c.programs[t.number].Steps[a.Msg.Step].Kind == collective.UnreachedStep {
			t.err = errUnreached
		}
	default:
		return t.catchUp(g)
	}
	return true
}

// pass takes the next step of a barrier.
func (t *task) pass(g *Program, c *Call, send func(f *Frame)) bool {
	a := c.barrier.Next(&t.barrier, 0)
	switch a.Kind {
	case protocol.Send:
		t.sends++
		send(t.frame(a.To, uint16(a.Msg), nil))
	case protocol.Deliver:
		t.finish(g, c)
	default:
		return false
	}
	return true
}

// finish ends the present operation.
func (t *task) finish(g *Program, c *Call) {
	var got [][]byte
	if c.barrier == nil {
		if p := &c.programs[t.number]; p.Segments == 0 {
			got, t.lent = t.store.Blocks(t.memory.blocks.list(len(p.Out))[:0], t.lent[:0])
		} else if p.Out != nil {
			v, _ := t.store.Vector()
			got = append(t.memory.blocks.list(1)[:0], present(v))
		}
	}
	t.over(g, digestOf(t.last(), got))
}

// abort ends the present operation, with all its parts, or skips it, without a result.
func (t *task) abort(g *Program) {
	if part := g.Calls[t.op].part; part > 0 {
		t.op, t.count, t.digest = t.op-part, t.count-int32(part), t.entry
		t.digests = slices.Clip(t.digests[:t.op]) // a copy of the task may have the others
	}
	t.leaves(g)
	for range g.Calls[t.op].last + 1 {
		t.aborted = append(t.aborted, t.op)
		t.past = protocol.Mix(t.past, uint64(t.op)+1)
		t.early[t.op] = t.early[t.op][:0]
		t.over(g, abortedOf(t.last()))
	}
}

// over goes on to the next operation.
func (t *task) over(g *Program, digest uint64) {
	t.digest = digest
	t.digests = append(t.digests, digest)
	t.op++
	t.count++
	t.begun, t.drawn, t.voted = false, false, false
	t.progress(g)
}

// keep logs a message to another process. has: the receiver has it; free: all of it may go.
func (t *task) keep(f *Frame, has, free bool) {
	switch t.record(f); {
	case has:
	case f.Op == streamed:
		t.leave(f)
	default:
		t.emitOn(t.withheld(f), free)
	}
}

// record logs a message.
func (t *task) record(f *Frame) {
	head := f.head()
	t.log().Add(int(f.To), head[:], f.Value)
}

// Outgoing lists what the process is about to send for a task that it runs.
func (s *State) Outgoing(task protocol.Rank) []*Frame {
	if t := s.find(task); t != nil {
		return t.out
	}
	return nil
}

// again queues everything that was ever sent to a task to be resent: the task has a new owner.
func (t *task) again(g *Program, to protocol.Rank, again bool) {
	t.out = slices.DeleteFunc(t.out, func(f *Frame) bool { return f.To == to })
	t.restart(g, to, again)
	t.askAgain(to)
	var held []*Frame
	for _, l := range t.logs {
		for head, value := range l.To(int(to)) {
			f := t.memory.frames.one()
			*f = logged(head, value)
			if f.Op == streamed {
				held = append(held, f)
				continue
			}
			if t.repeats(g, f) {
				continue
			}
			t.out = append(t.out, f)
		}
	}
	for _, a := range t.accounts {
		t.repeatMore(a, to)
	}
	t.reopen(to, held, again)
}

// clone returns a copy that shares nothing that changes.
func (t *task) clone(g *Program) *task {
	c := *t
	c.early, c.out, c.moves, c.digests = slices.Clone(t.early), slices.Clone(t.out), slices.Clone(t.moves), slices.Clip(t.digests)
	for i, list := range c.early {
		c.early[i] = slices.Clone(list)
	}
	c.aborted, c.onces, c.logs = slices.Clip(t.aborted), slices.Clip(t.onces), slices.Clone(t.logs)
	for i, l := range c.logs {
		c.logs[i].Log = l.Clone()
	}
	c.got, c.later, c.streams = slices.Clip(t.got), slices.Clip(t.later), slices.Clone(t.streams)
	for i, st := range c.streams {
		c.streams[i] = st.clone()
	}
	c.accounts = slices.Clone(t.accounts)
	for i, a := range c.accounts {
		c.accounts[i] = a.clone()
	}
	c.casts, c.pending = slices.Clone(t.casts), slices.Clip(t.pending)
	for i, one := range c.casts {
		c.casts[i] = one.clone()
	}
	c.steps, c.store, c.lent = t.steps.Clone(), collective.Store{}, nil
	if !t.begun || t.returned || g.Calls[t.op].schedule == nil {
		return &c
	}
	call := &g.Calls[t.op]
	c.supply(call)
	c.err = t.err
	for _, m := range t.moves {
		_ = c.redo(call, m) // the error, if any, is known
	}
	return &c
}

// sign adds the task to a fingerprint. What it has logged follows from how far it has come.
func (t *task) sign(f fingerprint) fingerprint {
	f = f.with(uint64(t.number)).with(t.view).with(uint64(t.op)).with(t.last()).with(t.past).with(t.came)
	f = f.with(t.epoch).with(uint64(t.balance))
	flags := uint64(0)
	for i, flag := range []bool{t.begun, t.returned, t.announced, t.err != nil, t.saving, t.drawn, t.voted} {
		if flag {
			flags |= 1 << i
		}
	}
	f = f.with(flags).with(uint64(len(t.moves))).with(uint64(t.sends))
	if t.begun {
		f = f.and(t.steps.Fingerprint())
	}
	sum := uint64(0)
	for _, m := range t.moves {
		if m.frame != nil {
			sum += protocol.Mix(m.frame.Key(), m.frame.Sum())
		}
	}
	f = f.with(sum)
	for _, list := range t.early {
		for _, e := range list {
			sum += protocol.Mix(e.Key(), e.Sum())
		}
	}
	for _, e := range t.later {
		sum += protocol.Mix(e.Key(), protocol.Mix(uint64(e.by.ID), uint64(e.by.Incarnation)))
	}
	f = f.with(sum).with(uint64(len(t.got)))
	for _, st := range t.streams {
		f = st.sign(f)
	}
	for _, c := range t.casts {
		f = c.sign(f)
	}
	for _, a := range t.accounts {
		f = a.sign(f)
	}
	for _, e := range t.pending {
		f = f.with(e.Key())
	}
	for _, e := range t.out {
		f = f.with(e.Key())
	}
	return f.with(uint64(len(t.out)))
}
