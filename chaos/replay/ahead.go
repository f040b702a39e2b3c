package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/credit"
	"github.com/coppice-go/coppice/protocol/membership"
)

// How far tasks may run ahead of each other in operations; package credit decides. This model leaves out that
// no task waits for one that has returned.

// counted takes the place of the operation in the Name of a message that says how many operations From has
// completed. Its lane is that number, and whether From has left some without their result.
const (
	counted = -5
	loosely = 1 << 15
)

// ahead is a task's account with the other tasks, in an epoch.
type ahead struct {
	credit.Account
	epoch  uint64
	again  []credit.Anew[*Frame] // by task
	beyond []uint64              // by task: the last operation in which it was too far ahead
}

// account returns the task's account in an epoch, or nil if the program does not limit how far tasks run
// ahead.
func (t *task) account(g *Program, epoch uint64) *ahead {
	if g.limits.Operations == 0 {
		return nil
	}
	for _, a := range t.accounts {
		if a.epoch == epoch {
			return a
		}
	}
	a := t.memory.accounts.one()
	again, beyond := a.again[:0], a.beyond[:0]
	for range g.Tasks {
		again, beyond = append(again, credit.Anew[*Frame]{}), append(beyond, 0)
	}
	*a = ahead{Account: a.Account, epoch: epoch, again: again, beyond: beyond}
	a.Reset(g.limits, g.Tasks)
	t.accounts = append(t.accounts, a)
	return a
}

// Sequence returns the number of an operation in its account.
func (n Name) Sequence() uint64 { return uint64(n.Op) + 1 }

// spends records that a message is sent. has: an earlier attempt has sent it, so it need not be sent; free:
// it goes without a grant.
func (t *task) spends(g *Program, f *Frame) (has, free bool) {
	a := t.account(g, uint64(f.Epoch))
	if a == nil || f.Op < 0 {
		return false, true
	}
	if !t.first && a.Has(int(f.To), f.Sequence()) {
		t.seen |= NotSentAgain
		return true, false
	}
	return false, a.Send(int(f.To), f.Sequence(), len(f.Value))
}

// heeds records that a message of an operation has come from the process that runs its sender. A message of
// an operation that its sender's task need not have reached says nothing about how far that task is, nor does
// one from a task that is run again, which may be sent what it was sent before.
func (t *task) heeds(g *Program, v *membership.View, f *Frame) {
	a := t.account(g, uint64(f.Epoch))
	if a == nil {
		return
	}
	a.Hear(int(f.From), f.Sequence(), len(f.Value))
	t.tellDue(a)
	at := g.index(f.Name)
	if at == len(g.Calls) || v.Since[f.From] > firstView {
		return
	}
	unasked := g.Calls[at].unasked()
	if !unasked || g.Calls[at].Root == f.From {
		t.bounds(a, f)
	}
	if unasked {
		return
	}
	if a.Entered(int(f.From), f.Sequence(), t.called(a)) {
		t.advanced(a, f.From)
	}
}

// called returns the last operation that the task has come to.
func (t *task) called(a *ahead) uint64 {
	if a.epoch == t.epoch && t.begun {
		return a.Count() + 1
	}
	return a.Count()
}

// bounds checks that a task does not run ahead: after its first message beyond the limit it must wait.
// Corrections of earlier operations may follow that message. A receiver that is run again may have been sent
// what it is far behind with.
func (t *task) bounds(a *ahead, f *Frame) {
	limit, seq := a.Count()+a.Operations, f.Sequence()
	if !t.first || seq <= limit {
		return
	}
	last := &a.beyond[f.From]
	if *last > limit && seq > *last && t.err == nil {
		t.err = fmt.Errorf("%w: operation %d of task %d, after %d, with %d completed here", errRanAhead, seq, f.From, *last, a.Count())
	}
	*last = max(*last, seq)
}

// errRanAhead means that a task ran ahead of another beyond the limit.
var errRanAhead = errors.New("a task runs ahead of another")

// unasked reports whether the operation begins with its root: a task that has not come to it passes its
// messages on.
func (p *Plan) unasked() bool { return p.Op == Broadcast || p.Op == Scatter }

// advanced resumes what waits for another task.
func (t *task) advanced(a *ahead, other protocol.Rank) {
	t.idle = 0
	t.repeatMore(a, other)
}

// tellDue sends this task's count to the tasks that are due to get it.
func (t *task) tellDue(a *ahead) {
	for r, ok := a.Tell(); ok; r, ok = a.Tell() {
		t.tellCount(a, protocol.Rank(r))
	}
}

// tellCount sends another task this one's count, which may overtake messages that wait to be sent.
func (t *task) tellCount(a *ahead, to protocol.Rank) {
	f := t.memory.frames.one()
	*f = Frame{Name: Name{counted, t.number, to, uint16(a.Count()), uint16(a.epoch)}, Past: t.view}
	if a.Loose() {
		f.Lane |= loosely
	}
	if a.Count()%2 == 0 {
		t.out = append(t.out, f)
	} else {
		t.out = slices.Insert(t.out, 0, f)
	}
}

// progress sends the tasks that are due the news that operations are over.
func (t *task) progress(g *Program) {
	if a := t.account(g, t.epoch); a != nil {
		a.Skip(uint64(t.count))
		t.tellDue(a)
	}
}

// leaves tells all other tasks that this one leaves an operation without its result.
func (t *task) leaves(g *Program) {
	a := t.account(g, t.epoch)
	if a == nil || !a.Leave() {
		return
	}
	for r := range protocol.Rank(g.Tasks) {
		if r != t.number {
			t.tellCount(a, r)
		}
	}
}

// blocked reports whether the task must wait before it enters its present operation.
func (t *task) blocked(g *Program) bool {
	if t.begun || t.returned || t.op == len(g.Calls) {
		return false
	}
	a := t.account(g, t.epoch)
	if a == nil || !a.Blocks(uint64(t.count)) {
		return false
	}
	t.seen |= HeldBack
	return true
}

// told handles another task's count.
func (t *task) told(g *Program, f *Frame) {
	if a := t.account(g, uint64(f.Epoch)); a != nil {
		a.Credited(int(f.From), uint64(f.Lane&^loosely), f.Lane&loosely != 0)
		t.advanced(a, f.From)
	}
}

// restart resets the account with a task that is run again; again: its earlier attempt knew nothing, either.
func (t *task) restart(g *Program, to protocol.Rank, again bool) {
	t.account(g, 0)
	t.account(g, t.epoch)
	for _, a := range t.accounts {
		if a.Restart(int(to), again) {
			t.tellCount(a, to)
		}
		a.again[to] = credit.Anew[*Frame]{}
		t.idle = 0
	}
}

// repeats queues a message of an operation to be resent when the receiving task has come far enough.
func (t *task) repeats(g *Program, f *Frame) bool {
	a := t.account(g, uint64(f.Epoch))
	if a != nil {
		a.again[f.To].Add(f)
	}
	return a != nil
}

// repeatMore resends the queued messages that may go.
func (t *task) repeatMore(a *ahead, to protocol.Rank) {
	r := &a.again[to]
	for f, ok := r.Next(&a.Account, int(to)); ok; f, ok = r.Next(&a.Account, int(to)) {
		t.emitOn(f, a.Send(int(to), f.Sequence(), len(f.Value)))
	}
	if r.Len() > 0 {
		t.seen |= RepeatsWait
	}
}

func (a *ahead) clone() *ahead {
	c := *a
	c.Account, c.again, c.beyond = a.Account.Clone(), slices.Clone(a.again), slices.Clone(a.beyond)
	return &c
}

// sign adds the account to a fingerprint.
func (a *ahead) sign(f fingerprint) fingerprint {
	f = f.with(a.epoch)
	a.Sign(func(x uint64) { f = f.with(x) })
	for i := range a.again {
		f = f.with(uint64(a.again[i].Len()))
	}
	return f
}
