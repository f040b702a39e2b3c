package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Agreements among the tasks that live, where the dead stay dead: package agreement
// says how, this is how its messages come and go. They have numbers of their own, since
// tasks come to them after different numbers of operations that failed.

// agreeName is the name of an agreement.
const agreeName = "agree"

// pact is a task's part in an agreement, from the first that is heard of it until a
// later one is decided: others may need what was decided.
type pact struct {
	entry
	state *agreement.Instance[*pact]
	fold  func(dst, left, right []byte) ([]byte, error)
	user  bool // that is code of the user
	works int  // that the task has to do
	late  bool // the task's context has ended
}

// Decision is what an agreement brought.
type Decision struct {
	Value  []byte
	Failed []int // ranks
}

// Agree combines the values of the tasks that live, the same for all. The context's
// end is a vote to abort it.
func (m *Member) Agree(ctx context.Context, c Call) (Decision, error) {
	c.Name = agreeName
	if !m.p.replays() {
		d, err := m.agree(ctx, c)
		return d, err
	}
	c.Plan = m.Choose(collective.AllReduce, Choice{Bytes: Unknown})
	r, err := m.together(ctx, m.patient(ctx), &c, agreeName)
	if err != nil {
		return Decision{}, m.undecided(err, agreeName)
	}
	return Decision{Value: r.Value}, nil
}

// agree is the same where the dead stay dead.
func (m *Member) agree(ctx context.Context, c Call) (Decision, error) {
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	if err := m.usable(agreeName); err != nil {
		return Decision{}, err
	}
	a, f := m.enterPact(&c)
	if f != nil {
		return Decision{}, f
	}
	if ctx.Err() != nil {
		m.agreements.Cancel(a.state.Number)
	}
	a.step()
	err := a.await(ctx)
	a.entered = false
	d, _ := a.state.Decision()
	switch {
	case p.dead:
		return Decision{}, ErrKilled
	case a.err != nil:
		a.err.Op = c.name()
		return Decision{}, a.err
	case err != nil:
		m.abandonPact(c.name())
		return Decision{}, m.impatience(c.name())
	case d.Abort:
		return Decision{}, &Failure{Op: c.name(), Err: ErrAborted}
	}
	brought := Decision{Value: d.Value}
	for _, r := range d.Failed {
		brought.Failed = append(brought.Failed, int(r))
	}
	return brought, nil
}

// enterPact has the task take part in its next agreement.
func (m *Member) enterPact(c *Call) (*pact, *Failure) {
	a := m.pact(m.series().Call(), c.Sign)
	if a.sign != c.Sign {
		return nil, m.misuse(nil, c.name(), []int{m.task},
			"task %d calls agreement %d of its group with %s, another one with another type", m.task, a.state.Number, c.Type)
	}
	a.entered, a.user, a.fold = true, c.Works, c.Kind.Fold
	if c.Again {
		m.p.countOn(&a.fate, m.fate)
	} else {
		m.p.count(m.task, c.name(), &a.fate)
	}
	m.agreements.Begin(a.state.Number, append([]byte{}, c.Value...))
	return a, nil
}

// series is the group's agreements, as this task knows them.
func (m *Member) series() *agreement.Tape[*pact] {
	if m.agreements == nil {
		m.agreements = &agreement.Tape[*pact]{}
		all := make([]protocol.Rank, m.Size())
		for r := range all {
			all[r] = protocol.Rank(r)
		}
		m.agreements.Init(protocol.Rank(m.rank), all, aheadMax)
		m.agreements.Note = m.p.trace.begin("Agreements", m.place(), m.tasks, m.Size(), m.rank, aheadMax)
		v := m.p.view()
		m.agreements.NewView(v.Number, m.living(v))
	}
	return m.agreements
}

// pacts lists the task's parts in agreements.
func (m *Member) pacts() (all []*pact) {
	if m.agreements != nil {
		for _, i := range m.agreements.Open() {
			all = append(all, i.Data)
		}
	}
	return all
}

// pact returns the task's part in an agreement. Who hears of it first says what it is.
func (m *Member) pact(i *agreement.Instance[*pact], sign uint64) *pact {
	if i.Data == nil {
		i.Data = &pact{entry: entry{m: m, sign: sign}, state: i}
	}
	return i.Data
}

// living are the ranks whose tasks are in a view.
func (m *Member) living(v *membership.View) (ranks []protocol.Rank) {
	for r := range m.Size() {
		if v.Owners[m.taskOf(r)] >= 0 {
			ranks = append(ranks, protocol.Rank(r))
		}
	}
	return ranks
}

// reconvene has a group begin its agreements anew in a view, and pass on that it is revoked, if it is.
func (m *Member) reconvene(v *membership.View) {
	if m.agreements != nil {
		m.agreements.NewView(v.Number, m.living(v))
		for _, a := range m.pacts() {
			a.step()
		}
	}
	m.flood()
}

// letter takes a message of an agreement.
func (m *Member) letter(from int, in *incoming) {
	if !in.Complete() {
		in = in.stay()
		in.arrived = func() {
			m.letter(from, in)
		}
		in.want()
		return
	}
	msg, err := agreement.Decode(slices.Clone(in.value))
	if err != nil {
		m.p.cfg.Logger.Warn("bad letter", "peer", in.source.rank, "error", err)
		return
	}
	i := m.series().Hear(in.seq)
	if i == nil {
		return // it is over, or cannot be
	}
	a := m.pact(i, in.sign)
	if a.sign != in.sign {
		m.misuse(nil, agreeName, []int{m.task, m.taskOf(from)},
			"tasks %d and %d call agreement %d of their group with different types", m.task, m.taskOf(from), in.seq)
		return
	}
	a.counted()
	m.agreements.Receive(in.seq, protocol.Rank(from), msg)
	a.step()
}

// step does all that is to be done now.
func (a *pact) step() {
	p := a.m.p
	for a.err == nil && !p.dead {
		switch next := a.m.agreements.Next(a.state.Number); next.Kind {
		case protocol.Send:
			a.send(int(next.To), next.Msg)
		case protocol.Deliver:
			a.counted()
			a.delivered = true
			p.engine.Complete(a.w)
			for ; a.works > 0; a.works-- { // the task will not do it any more, and nobody needs it
				a.m.agreements.Folded(a.state.Number, nil)
			}
		case protocol.Work:
			if a.user {
				a.works++
				p.engine.Complete(a.w)
				return
			}
			left, right := a.state.Operands()
			v, err := a.fold(nil, left, right)
			if err != nil {
				a.cannotFold(err)
				return
			}
			a.m.agreements.Folded(a.state.Number, v)
		default:
			return
		}
	}
}

func (a *pact) send(to int, msg agreement.Message) {
	e := a.m.to(to)
	e.seq, e.sign, e.plan = a.state.Number, a.sign, Plan{op: opAgree}
	q, value := a.m.peer(to), msg.Append(nil)
	if !a.diesSending(q, e, value) {
		q.send(e, value, nil)
	}
}

// await waits for the decision. The end of the context is a vote against it, and there
// is some time then to learn whether it came too late.
func (a *pact) await(ctx context.Context) (err error) {
	p := a.m.p
	for a.waits() && err == nil && !p.dead {
		if a.works > 0 {
			a.combine()
			continue
		}
		if err = a.sleep(ctx); err != nil && !a.late {
			a.late = true
			ctx, err = a.m.patient(ctx), nil
			a.m.agreements.Cancel(a.state.Number)
			a.step()
		}
	}
	return err
}

// combine has the user's code combine two values, without the lock.
func (a *pact) combine() {
	a.works--
	left, right := a.state.Operands()
	var v []byte
	err := a.m.p.unlocked(func() (err error) {
		if left != nil { // otherwise a view has opened: it is of no use any more
			v, err = a.fold(nil, left, right)
		}
		return err
	}, func() {
		a.entered = false
		a.m.abandonPact(agreeName)
	})
	if err != nil {
		a.cannotFold(err)
		return
	}
	a.m.agreements.Folded(a.state.Number, v)
	a.step()
}

// abandonPact tells the group that this task has given up its agreement.
func (m *Member) abandonPact(op string) {
	if m.usable(agreeName) == nil {
		m.misuse(nil, op, []int{m.task}, "task %d has given up agreement %d of its group, %s", m.task, m.series().Called(), op)
	}
}

// cannotFold fails the agreement, for all tasks: they would wait for this one.
func (a *pact) cannotFold(err error) {
	m := a.m
	a.fail(&Failure{Tasks: []int{m.task}, Err: err})
	m.announce(&Failure{Op: agreeName, Tasks: []int{m.task}, Err: ErrMismatch, Text: fmt.Sprintf("task %d: %v", m.task, err)})
}

// fail ends the task's wait.
func (a *pact) fail(f *Failure) {
	if a.waits() {
		a.err = f
		a.m.p.engine.Complete(a.w)
	}
}

// failPacts ends the waits in agreements, if they must not go on.
func (m *Member) failPacts() {
	for _, a := range m.pacts() {
		switch {
		case m.p.ended != nil:
			a.fail(&Failure{Err: m.p.ended})
		case m.broken != nil:
			f := *m.broken
			a.fail(&f)
		}
	}
}

// patrol asks those that a long-waiting agreement waits for: they may have returned, or
// wait for this task.
func (a *pact) patrol(rounds int) {
	if !a.waits() || !probes(&a.patrols, rounds) {
		return
	}
	for _, r := range a.state.Awaits() {
		e := a.m.to(int(r))
		e.seq, e.sign, e.extra, e.kind, e.plan = a.state.Number, a.sign, a.m.seq, opAgree, Plan{op: opProbe}
		a.m.peer(int(r)).send(e, nil, nil)
	}
}

// probedPact answers a task that waits in an agreement for this one, which has come
// to in.extra operations: if this one waits in a later one, nobody will go on.
func (m *Member) probedPact(from int, in *incoming) {
	if in.seq <= m.series().Called() {
		return
	}
	if m.p.hasReturned(m.task) {
		m.p.tellGone(in)
		return
	}
	for o := range m.ops.all() {
		if o.waits() && o.w != nil && o.seq > in.extra && o.patrols > probeEvery {
			o.misused(m.misuse(nil, opName(o.plan.op), []int{m.task, m.taskOf(from)},
				"task %d calls %s as operation %d of its group, task %d an agreement after %d", m.task, described(o.plan, o.typ), o.seq, m.taskOf(from), in.extra))
			return
		}
	}
}

// goneInPact learns that a task has returned that an agreement waits for.
func (m *Member) goneInPact(rank int, number uint64) {
	if i := m.series().Find(number); i != nil && i.Data.waits() {
		f := m.goneFailure(agreeName, rank)
		i.Data.fail(f)
		if f.Err == ErrLeft {
			f = &Failure{Op: f.Op, Tasks: f.Tasks, Err: ErrMismatch, Text: f.Text}
		}
		m.announce(f)
	}
}
