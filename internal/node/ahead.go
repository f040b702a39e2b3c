package node

import (
	"context"

	"github.com/coppice-go/coppice/internal/node/engine"
	"github.com/coppice-go/coppice/protocol/credit"
)

// ahead keeps a task from running ahead of those it sends to: package credit says how far.
type ahead struct {
	credit.Tape
	waiting engine.Line
}

var aheadLimits = credit.Limits{Operations: aheadMax, Bytes: aheadBytes}

// send takes note that a rank is sent so many bytes in an operation. It returns how
// many of them may go without its grant.
func (a *ahead) send(m *Member, to int, seq uint64, bytes int) (eager int) {
	if m.p.roster.Gone() { // perhaps before the group was made
		a.gone(m, to)
	}
	if !a.Send(to, seq, bytes) {
		return inlineMax
	}
	return eagerMax
}

// gone takes note that a rank need not be waited for, if it takes part no more.
func (a *ahead) gone(m *Member, rank int) (gone bool) {
	g := m.goneRank(rank)
	switch {
	case g.Dead:
		a.Died(rank)
	case g.Returned:
		a.Returned(rank)
	}
	return g.Dead || g.Returned
}

// lookGone looks which ranks need not be waited for.
func (a *ahead) lookGone(m *Member) {
	for r := range m.Size() {
		if a.gone(m, r) && m.unsent > 0 {
			m.peer(r).waive(m.taskOf(r))
		}
	}
	a.look(m)
}

// What a credit is about.
const (
	creditOperations = iota
	creditStream
	creditLoose // the same as of operations, by a task that has left some without their result
)

// credited learns how many operations a rank has completed.
func (a *ahead) credited(m *Member, from int, completed uint64, loose bool) {
	a.Credited(from, completed, loose)
	a.advanced(m, from)
}

// advanced goes on with what waits for a rank.
func (a *ahead) advanced(m *Member, rank int) {
	m.repeatMore(rank)
	a.look(m)
}

// hear takes note that a rank sent so many bytes in an operation; entered: its task has
// come to it.
func (a *ahead) hear(m *Member, from int, seq uint64, bytes int, entered bool) {
	a.Hear(from, seq, bytes)
	a.tellDue(m)
	if entered && a.Entered(from, seq, m.seq) {
		a.advanced(m, from)
	}
}

// owe makes the task tell a rank what it has completed although that sent nothing:
// it was asked to wait for this task.
func (a *ahead) owe(m *Member, rank int) {
	a.Owe(rank)
	a.tellDue(m)
}

// tellDue tells those who are due what the task has completed.
func (a *ahead) tellDue(m *Member) {
	for r, ok := a.Tell(); ok; r, ok = a.Tell() {
		m.tellCredit(r)
	}
}

func (m *Member) tellCredit(rank int) {
	e := m.to(rank)
	e.seq, e.plan, e.sign = m.ahead.Count(), Plan{op: opCredit}, uint64(m.p.roster.Attempt(m.task))
	if m.ahead.Loose() {
		e.kind = creditLoose
	}
	m.peer(rank).tell(e)
}

// tellLoose tells all that the task leaves an operation without its result.
func (m *Member) tellLoose() {
	if m.p.dead || !m.ahead.Leave() {
		return
	}
	for r := range m.Size() {
		if r != m.rank {
			m.tellCredit(r)
		}
	}
}

// restart begins anew with a rank that is run again.
func (a *ahead) restart(m *Member, rank int, again bool) {
	if a.Restart(rank, again) {
		m.tellCredit(rank)
	}
	a.look(m)
}

// blocks reports whether the task must wait: for one that is far behind, or until more of
// what it sends is sent.
func (a *ahead) blocks(m *Member) bool { return m.unsent > unsentMax || a.Blocks(m.seq) }

// look ends waits for those that were far behind.
func (a *ahead) look(m *Member) {
	if len(a.waiting) > 0 && !a.blocks(m) {
		a.wake(m)
	}
}

// wake ends all waits: who waits looks again.
func (a *ahead) wake(m *Member) { m.p.engine.LookAgain(&a.waiting) }

// catchUp waits until nobody is too far behind. A task that cannot has called the operation all the same, as the others have.
func (m *Member) catchUp(ctx context.Context, op string) error {
	for m.ahead.blocks(m) && !m.aborted() { // if it is, the task will see
		var err error
		if waited := m.p.engine.Stand(ctx, &m.ahead.waiting); waited != nil {
			err = &Failure{Op: op, Err: waited}
		} else {
			err = m.usable(op)
		}
		if err != nil {
			m.seq++
			m.abandon(op)
			return err
		}
	}
	return nil
}
