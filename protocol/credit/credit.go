// Package credit keeps a task from running ahead of those that it sends to in the operations of a
// group, and says whom it tells how far it is. The runtime and the tests of this package run it.
//
// Operations are numbered from 1. A task tells those who send to it how many it has completed, once
// in a while, and who sends is at most Operations ahead of that, and one more: with the first message
// beyond, it waits. What a task's process passes on before the task has come to the operation is not
// the task's, and no reason for it to wait: two tasks could wait for each other. So a task at depth d
// of a tree holds at most d times as much. It costs one message for Operations/4 operations.
//
// The caller's duties:
//
//  1. Links deliver in order, except that what an account tells may overtake other messages.
//  2. What a task tells counts only if the attempt of it that the caller knows of says so, be the one before
//     in the same process; what one tells there that is news to come counts when it is known. The same holds for
//     Entered; Hear may count too much.
//  3. Whoever learns of a view that has a task run again calls Restart before anything of the new
//     attempt is taken for true; and once more if that attempt is where the one before was, which may have
//     dropped what was sent to this one, when it says so. What it tells may come before.
//  4. Hear, Owe, Completed and Skip are followed by Tell, until it returns false. Who is told gets Count
//     and Loose.
package credit

import "slices"

// Limits are the same at all tasks.
type Limits struct {
	Operations uint64 // that a task is ahead of those it sends to
	Bytes      int    // that go without a grant, to a task that completes nothing
}

func (l *Limits) step() uint64 { return max(l.Operations/4, 1) }

// Account is what a task knows of the other ranks of its group. With nothing but limits it is that
// of a task that has completed nothing and heard of nobody.
type Account struct {
	Limits
	ranks     []rank
	completed uint64
	loose     bool  // the task has left an operation without its result
	dues      []int // the ranks that are due
	next      int   // the first of dues that may have to be told now
	behind    int   // ranks that are too far behind
}

// rank is what is known of one.
type rank struct {
	sent  uint64 // the last operation in which something was sent to it
	done  uint64 // the operations that it has completed
	told  uint64 // the operations that it was told this task has completed
	heard uint64 // the last operation in which it sent something
	loose bool   // it has left operations without their result
	gone  bool   // nobody waits for it
	due   bool   // it is to be told when this task has completed more
	asked bool   // it may wait for more than was heard of it, and stays due

	sentBytes  int // since it last told what it has completed
	heardBytes int // since it was last told
}

// never is beyond the number of any operation.
const never = 1 << 62

// Fit makes room for a group of n ranks. Before that nothing may be said of a rank, except that it is
// gone.
func (a *Account) Fit(n int) {
	if a.ranks == nil {
		a.ranks = make([]rank, n)
	}
}

// Reset makes it the account of a task in a group of n ranks, in the memory that it has.
func (a *Account) Reset(l Limits, n int) {
	ranks := append(a.ranks[:0], make([]rank, n)...)
	*a = Account{Limits: l, ranks: ranks, dues: a.dues[:0]}
}

// Clone returns a copy that shares nothing that changes.
func (a *Account) Clone() Account {
	c := *a
	c.ranks, c.dues = slices.Clone(a.ranks), slices.Clone(a.dues)
	return c
}

// Sign hands out what tells accounts of one task apart.
func (a *Account) Sign(with func(uint64)) {
	flags := func(all ...bool) (sum uint64) {
		for i, f := range all {
			if f {
				sum |= 1 << i
			}
		}
		return sum
	}
	with(a.completed<<1 | flags(a.loose))
	for i := range a.ranks {
		r := &a.ranks[i]
		for _, x := range []uint64{r.sent, r.done, r.told, r.heard, uint64(r.sentBytes), uint64(r.heardBytes), flags(r.loose, r.gone, r.due, r.asked)} {
			with(x)
		}
	}
	for _, d := range a.dues {
		with(uint64(d))
	}
}

// Count is the number of operations that the task has completed.
func (a *Account) Count() uint64 { return a.completed }

// Loose reports whether the task has left an operation without its result.
func (a *Account) Loose() bool { return a.loose }

func (a *Account) late(r *rank) bool { return !r.gone && r.sent > r.done+a.Operations }

// settle counts a rank that is late now and was not before, or the other way round.
func (a *Account) settle(r *rank, was bool) {
	switch is := a.late(r); {
	case is && !was:
		a.behind++
	case was && !is:
		a.behind--
	}
}

// Send says that a rank is sent so many bytes in an operation; free: they may go without a grant.
func (a *Account) Send(to int, seq uint64, bytes int) (free bool) {
	r := &a.ranks[to]
	was := a.late(r)
	r.sent = max(r.sent, seq)
	a.settle(r, was)
	if r.gone {
		return true
	}
	r.sentBytes += bytes
	return r.sentBytes <= a.Bytes
}

// Credited learns how many operations a rank has completed; loose: it has left some of them without
// their result, and may not have what was sent to it.
func (a *Account) Credited(from int, completed uint64, loose bool) {
	r := &a.ranks[from]
	was := a.late(r)
	r.done = max(r.done, min(completed, never))
	r.loose = r.loose || loose
	r.sentBytes = 0
	a.settle(r, was)
}

// Entered learns that a rank has come to an operation, where this task is in operation own. It reports
// whether that is news: the rank has completed those before.
func (a *Account) Entered(from int, seq, own uint64) (news bool) {
	if seq-1 <= a.ranks[from].done || seq > own+a.Operations {
		return false
	}
	a.Credited(from, seq-1, false)
	return true
}

// Blocks reports whether the task, which has come to operation seq, must wait for one that is far
// behind before it comes to the next.
func (a *Account) Blocks(seq uint64) bool {
	if a.behind == 0 {
		return false
	}
	for i := range a.ranks {
		if r := &a.ranks[i]; a.late(r) && seq >= r.done+a.Operations {
			return true
		}
	}
	return false
}

// Has reports whether a rank has all that it was ever sent in an operation: it has completed it.
func (a *Account) Has(to int, seq uint64) bool {
	return to < len(a.ranks) && a.ranks[to].done >= seq && !a.ranks[to].loose
}

// Passed reports whether all who were sent anything have what was sent in an operation.
func (a *Account) Passed(seq uint64) bool {
	for i := range a.ranks {
		if a.ranks[i].sent > 0 && !a.Has(i, seq) {
			return false
		}
	}
	return true
}

// Anew is what a rank that is run again is still to be sent again of a log, in the order of operations. The log may
// have another order: what was passed on for a task was logged before what the task sent.
type Anew[M interface{ Sequence() uint64 }] struct {
	messages []M
	sent     uint64 // the operation of the last that was
}

// Add adds a message of the log.
func (n *Anew[M]) Add(m M) {
	at := len(n.messages)
	for at > 0 && n.messages[at-1].Sequence() > m.Sequence() {
		at--
	}
	n.messages = slices.Insert(n.messages, at, m)
}

// Next takes the next message, if the rank is not too far behind for it. One message may be of any later operation than
// the one before: whoever gets it tells how far it is.
func (n *Anew[M]) Next(a *Account, to int) (m M, ok bool) {
	if len(n.messages) == 0 || n.sent > a.ranks[to].done+a.Operations {
		return m, false
	}
	m, n.messages = n.messages[0], n.messages[1:]
	n.sent = m.Sequence()
	return m, true
}

// Len is how many wait.
func (n *Anew[M]) Len() int { return len(n.messages) }

// Hear says that a rank sent so many bytes in an operation. It does not go on if that is too far from
// what it was told, be it the first that it ever sent.
func (a *Account) Hear(from int, seq uint64, bytes int) {
	r := &a.ranks[from]
	r.heard = max(r.heard, min(seq, never))
	r.heardBytes += bytes
	if seq >= r.told+a.step() || a.much(r) {
		a.makeDue(from)
	}
}

// Owe says that a rank waits for this task although it sends nothing. It is told from now on: how far it waits is not known
// here.
func (a *Account) Owe(to int) {
	a.ranks[to].asked = true
	a.makeDue(to)
}

// makeDue has a rank told when this task has completed more.
func (a *Account) makeDue(to int) {
	if r := &a.ranks[to]; !r.due {
		r.due = true
		a.dues = append(a.dues, to)
	}
}

// much reports whether a rank may soon need grants for what it sends.
func (a *Account) much(r *rank) bool { return r.heardBytes > a.Bytes/4 }

// ripe reports whether a rank that is due is to be told now.
func (a *Account) ripe(r *rank) bool {
	return a.completed >= r.told+a.step() || a.completed > r.told && a.much(r)
}

// telling records what a rank learns now. A rank that has already sent much more stays due: it may
// send nothing more before it hears from this task again.
func (a *Account) telling(r *rank) {
	r.told, r.heardBytes = a.completed, 0
	r.due = r.asked || r.heard >= a.completed+a.step()
}

// Completed says that the task has completed an operation.
func (a *Account) Completed() { a.Skip(a.completed + 1) }

// Skip says that the task does not come to operations up to seq, or has completed them.
func (a *Account) Skip(seq uint64) { a.completed, a.next = seq, 0 }

// Leave says that the task leaves an operation without its result. It returns true if all are to be
// told: that the task comes to others does not mean that it has what was sent to it.
func (a *Account) Leave() (tell bool) {
	tell, a.loose = !a.loose, true
	return tell
}

// Tell returns a rank that is to be told now.
func (a *Account) Tell() (to int, ok bool) {
	for a.next < len(a.dues) {
		to := a.dues[a.next]
		r := &a.ranks[to]
		if !a.ripe(r) {
			a.next++
			continue
		}
		if a.telling(r); !r.due {
			a.remove(a.next)
		}
		return to, true
	}
	return 0, false
}

func (a *Account) remove(at int) {
	last := len(a.dues) - 1
	a.dues[at] = a.dues[last]
	a.dues = a.dues[:last]
}

// Returned says that a rank's task has returned: nobody waits for it. Its process passes on what comes
// all the same. Before Fit that is not noted, and has to be said again.
func (a *Account) Returned(rank int) {
	if rank >= len(a.ranks) {
		return
	}
	r := &a.ranks[rank]
	was := a.late(r)
	r.gone = true
	a.settle(r, was)
}

// Died says that a rank is dead: nothing of what was sent to it is on its way.
func (a *Account) Died(rank int) {
	if a.Returned(rank); rank < len(a.ranks) {
		a.ranks[rank].done, a.ranks[rank].loose = never, false
	}
}

// Restart says that a rank is run again; tell: it is to be told now. It has completed nothing, and
// stays due from now on: what it sent before that was known here did not count as heard. again: that was known, but
// the rank may have dropped what it was sent; what it has told since is true.
func (a *Account) Restart(to int, again bool) (tell bool) {
	r := &a.ranks[to]
	was, now := a.late(r), rank{told: a.completed, due: r.due, asked: true}
	if again {
		now.done, now.loose = r.done, r.loose
	}
	*r = now
	a.settle(r, was)
	a.makeDue(to)
	return a.completed > 0 || a.loose
}
