package oracle

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
	"github.com/coppice-go/coppice/protocol/credit"
	"github.com/coppice-go/coppice/protocol/flow"
)

// tasks is what tasks have done in groups, over all their attempts.
type tasks struct {
	most      map[count]uint64
	letters   map[letter]bool // sent and not received
	decisions map[letter][]decision
}

// count identifies a count of one task of a group with another.
type count struct {
	of       what
	from, to protocol.Place
	tag      uint64
}

type what uint8

const (
	gone  what = iota // messages of a stream that were sent
	taken             // messages of a stream that the receiver has taken
	sent              // the last operation in which something was sent
	done              // operations that a task has completed
	loose             // operations that a task has completed, some of them without their result
)

func (t *tasks) reached(k count, number uint64) { t.most[k] = max(t.most[k], number) }

// stream is an end of a stream.
type stream struct {
	*checker
	from, to protocol.Place
	tag      uint64
}

func (s *stream) is(w what) count { return count{w, s.from, s.to, s.tag} }

// out is the sending end of a stream.
type out struct {
	flow.Out
	stream
}

// Out begins the machine.
func (q *life) Out(at protocol.Place, to protocol.Rank, tag, _ uint64) *out {
	return &out{stream: stream{q.c, at, at.Of(to), tag}}
}

func (o *out) after() { o.reached(o.is(gone), o.Last()-uint64(o.Held())) }

// Credited checks that the receiver has taken that many messages.
func (o *out) Credited(number uint64, again bool) {
	if o.Credits++; number > o.most[o.is(taken)] {
		o.fail("%d messages are said to be taken; the receiver has taken %d", number, o.most[o.is(taken)])
	}
	o.Out.Credited(number, again)
}

// in is the receiving end of a stream.
type in struct {
	flow.In
	stream
	window, last uint64
	whole        map[uint64]bool // messages that are complete and not taken
}

// In begins the machine.
func (q *life) In(at protocol.Place, from protocol.Rank, tag, window uint64) *in {
	return &in{stream: stream{q.c, at.Of(from), at, tag}, window: window, whole: map[uint64]bool{}}
}

func (i *in) after() { i.reached(i.is(taken), i.Taken()) }

// Arrive checks that a message was sent, comes in order, and is not too far ahead of what is taken.
func (i *in) Arrive(number uint64) flow.Arrival {
	i.Arrivals++
	switch {
	case number > i.most[i.is(gone)]:
		i.fail("message %d comes, which the sender has not let go", number)
	case number > i.last+1:
		i.fail("message %d comes after message %d", number, i.last)
	case number > i.Taken()+i.window:
		i.fail("message %d comes after %d were taken, with a window of %d", number, i.Taken(), i.window)
	}
	i.last = max(i.last, number)
	return i.In.Arrive(number)
}

// Complete records that a message is complete.
func (i *in) Complete(number uint64) (first bool) {
	first = i.In.Complete(number)
	i.whole[number] = i.whole[number] || first
	return first
}

// Take checks that the message is complete.
func (i *in) Take(window uint64) (tell bool) {
	number := i.Taken() + 1
	if !i.whole[number] {
		i.fail("message %d is taken, which is not complete", number)
	}
	delete(i.whole, number)
	return i.In.Take(window)
}

// group is a task's place in a group.
type group struct {
	*checker
	at    protocol.Place
	tasks []protocol.Rank // by rank; nil: those of the world
	size  int
}

// place returns the place of a rank.
func (g *group) place(rank int) protocol.Place {
	if g.tasks == nil {
		return g.at.Of(protocol.Rank(rank))
	}
	return g.at.Of(g.tasks[rank])
}

// account is what a task knows about the operations of others.
type account struct {
	credit.Account
	group
	tells bool // Tell must follow
}

// Account begins the machine.
func (q *life) Account(at protocol.Place, tasks []protocol.Rank, limits credit.Limits) *account {
	return &account{Account: credit.Account{Limits: limits}, group: group{q.c, at, tasks, 0}}
}

// before checks that every task that was due has been told how far this one is.
func (a *account) before(call string) {
	if a.tells && call != "Tell" {
		if to, due := a.Tell(); due {
			a.fail("task %d was not told before how far this one is", a.place(to).Task)
		}
	}
	a.tells = slices.Contains([]string{"Tell", "Hear", "Owe", "Completed", "Skip"}, call)
}

// completed identifies the count of operations that a task has completed, plus one.
func completed(at protocol.Place, some bool) count {
	if some {
		return count{of: loose, from: at}
	}
	return count{of: done, from: at}
}

func (a *account) after() { a.reached(completed(a.at, a.Loose()), a.Count()+1) }

// Send records a message.
func (a *account) Send(to int, seq uint64, bytes int) (free bool) {
	a.reached(count{of: sent, from: a.at, to: a.place(to)}, seq)
	return a.Account.Send(to, seq, bytes)
}

// Hear checks that a message was sent.
func (a *account) Hear(from int, seq uint64, bytes int) {
	if last := a.most[count{of: sent, from: a.place(from), to: a.at}]; seq > last {
		a.fail("task %d is heard in operation %d; it has sent nothing after operation %d", a.place(from).Task, seq, last)
	}
	a.Account.Hear(from, seq, bytes)
}

// Credited checks that the task has completed that many operations.
func (a *account) Credited(from int, operations uint64, some bool) {
	if a.Credits++; operations >= a.most[completed(a.place(from), some)] {
		a.fail("task %d is said to have completed %d operations, loose: %t, which it has not", a.place(from).Task, operations, some)
	}
	a.Account.Credited(from, operations, some)
}

// agreements is a task's part in the agreements of a group.
type agreements struct {
	agreement.Tape[struct{}]
	group
	q      *life
	rank   protocol.Rank
	view   uint64
	living []protocol.Rank // the ranks in the view
}

// letter is a message of an agreement.
type letter struct {
	from, to protocol.Place
	number   uint64
	print    [2]uint64
}

// decision is a result that a task has returned from an agreement.
type decision struct {
	agreement.Message
	rank   protocol.Rank
	living []protocol.Rank
}

// Agreements begins the machine.
func (q *life) Agreements(at protocol.Place, tasks []protocol.Rank, size int, rank protocol.Rank, ahead uint64) *agreements {
	a := &agreements{group: group{q.c, at, tasks, size}, q: q, rank: rank}
	a.Init(rank, a.those(func(protocol.Rank) bool { return true }), ahead)
	return a
}

// those lists the ranks of tasks for which so reports true.
func (a *agreements) those(so func(task protocol.Rank) bool) (ranks []protocol.Rank) {
	for r := range a.size {
		if so(a.place(r).Task) {
			ranks = append(ranks, protocol.Rank(r))
		}
	}
	return ranks
}

// NewView checks that the process has opened the view, and which ranks are in it.
func (a *agreements) NewView(number uint64, living []protocol.Rank) {
	switch v := a.views[number]; {
	case number <= a.view:
		a.fail("view %d comes after view %d", number, a.view)
	case v == nil || a.q.rules == nil || a.q.rules.View() != nil && a.q.rules.View().Number < number:
		a.fail("view %d is not open", number)
	case !slices.Equal(living, a.those(func(task protocol.Rank) bool { return v.Owners[task] >= 0 })):
		a.fail("ranks %v are said to be in %v", living, v)
	}
	a.view, a.living = number, living
	a.Tape.NewView(number, living)
}

// Receive checks that a message was sent.
func (a *agreements) Receive(number uint64, from protocol.Rank, m agreement.Message) {
	l := letter{a.place(int(from)), a.at, number, m.Fingerprint()}
	if !a.letters[l] {
		a.fail("%v of agreement %d comes from rank %d, which has not sent it, or once more", m, number, from)
	}
	delete(a.letters, l)
	a.Tape.Receive(number, from, m)
}

// Next records what is sent, and checks what is decided.
func (a *agreements) Next(number uint64) agreement.Action {
	act := a.Tape.Next(number)
	switch act.Kind {
	case protocol.Send:
		a.letters[letter{a.at, a.place(int(act.To)), number, act.Msg.Fingerprint()}] = true
	case protocol.Deliver:
		a.decided(letter{from: a.at.Of(0), number: number}, decision{act.Msg, a.rank, a.living})
	}
	return act
}

// decided checks that ranks that are in each other's views return the same decision, and that it leaves out
// exactly the ranks that were not in the view that decided it.
func (a *agreements) decided(k letter, d decision) {
	a.Decisions++
	for _, early := range a.decisions[k] {
		late := d
		if late.View < early.View {
			late, early = early, late
		}
		if slices.Contains(late.living, early.rank) && !late.Same(early.Message) {
			a.fail("rank %d returns in view %d: %v; rank %d in view %d: %v", early.rank, early.View, early.Message, late.rank, late.View, late.Message)
		}
	}
	if v := a.views[d.Decided]; v == nil || !slices.Equal(d.Failed, a.those(func(task protocol.Rank) bool { return v.Owners[task] < 0 })) {
		a.fail("%v, as others were not in it", d.Message)
	}
	a.decisions[k] = append(a.decisions[k], d)
}
