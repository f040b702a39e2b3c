// Package credit keeps a task from running ahead of the tasks that it sends to in the operations of a group, and says
// to which ranks it reports its progress. The runtime and the tests of this package run it. Its API may change.
//
// Operations are numbered from 1. Now and then a task reports to the tasks that send to it how many operations it has
// completed. A sender gets at most Operations ahead of that report, and one more: after its first message beyond, it
// waits. Messages that a process forwards for its task before the task has reached the operation are no reason for the
// task to wait: two tasks could wait for each other. So a task at depth d of a tree holds at most d times as much. The
// cost is one message for Operations/4 operations.
//
// The caller's duties:
//
//  1. Links deliver in order, except that reports of an account may overtake other messages.
//  2. A task's report counts only if it comes from the attempt that the caller knows, even if a later attempt has
//     replaced that one in the same process. A report of a later attempt in the same process counts once the caller
//     knows of that attempt. The same holds for Entered; Hear may count too much.
//  3. A caller that learns of a view that runs a task again calls Restart before it relies on anything from the new
//     attempt. If the new attempt is in the process of the one before, which may have dropped what was sent to the new
//     one, the caller calls Restart once more when the new attempt says so. Reports of the new attempt may come earlier.
//  4. After Hear, Owe, Completed and Skip the caller calls Tell until it returns false, and sends each rank that Tell
//     returns Count and Loose.
package credit

import "slices"

// Limits are the same at all tasks.
type Limits struct {
	Operations uint64 // by which a task may be ahead of those it sends to
	Bytes      int    // that may go without a grant to a task that completes nothing
}

func (l *Limits) step() uint64 { return max(l.Operations/4, 1) }

// Account is what a task knows of the other ranks of its group. An Account with only limits set belongs to a task that
// has completed nothing and heard from no rank.
type Account struct {
	Limits
	ranks     []rank
	completed uint64
	loose     bool  // the task has left an operation without its result
	dues      []int // the ranks that are due
	next      int   // the first of dues that may be ripe for a report
	behind    int   // ranks that are too far behind
}

// rank is what is known of one rank.
type rank struct {
	sent  uint64 // the last operation in which something was sent to it
	done  uint64 // the operations that it has completed
	told  uint64 // completed operations of this task, as last reported to it
	heard uint64 // the last operation in which it sent something
	loose bool   // it has left operations without their result
	gone  bool   // no task waits for it
	due   bool   // it gets a report when this task has completed more
	asked bool   // it may wait for more than was heard from it, and stays due

	sentBytes  int // since its last report
	heardBytes int // since the last report to it
}

// never is beyond the number of any operation.
const never = 1 << 62

// Fit makes room for a group of n ranks. Before Fit no call may name a rank, except Has, Returned and Died: the last two
// then have no effect.
func (a *Account) Fit(n int) {
	if a.ranks == nil {
		a.ranks = make([]rank, n)
	}
}

// Reset makes the Account that of a task in a group of n ranks, in the memory that it has.
// Sign calls with for each value that distinguishes accounts of one task.
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

// settle updates behind when r becomes late or stops being late.
func (a *Account) settle(r *rank, was bool) {
	switch is := a.late(r); {
	case is && !was:
		a.behind++
	case was && !is:
		a.behind--
	}
}

// Send notes that bytes are sent to a rank in operation seq. free reports that they may go without a grant.
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

// Credited notes how many operations a rank has completed. loose says that it has left some of them without their
// result, and may not have received what was sent to it.
func (a *Account) Credited(from int, completed uint64, loose bool) {
	r := &a.ranks[from]
	was := a.late(r)
	r.done = max(r.done, min(completed, never))
	r.loose = r.loose || loose
	r.sentBytes = 0
	a.settle(r, was)
}

// Entered notes that a rank has reached operation seq, while this task is in operation own. It reports whether that is
// news: the rank has completed all operations before seq.
func (a *Account) Entered(from int, seq, own uint64) (news bool) {
	if seq-1 <= a.ranks[from].done || seq > own+a.Operations {
		return false
	}
	a.Credited(from, seq-1, false)
	return true
}

// Blocks reports whether the task, which has reached operation seq, must wait for a rank that is far behind before it
// enters the next operation.
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

// Has reports whether a rank has all that was ever sent to it in operation seq, because it has completed the operation.
func (a *Account) Has(to int, seq uint64) bool {
	return to < len(a.ranks) && a.ranks[to].done >= seq && !a.ranks[to].loose
}

// Passed reports whether every rank that was sent anything has what was sent to it in operation seq.
func (a *Account) Passed(seq uint64) bool {
	for i := range a.ranks {
		if a.ranks[i].sent > 0 && !a.Has(i, seq) {
			return false
		}
	}
	return true
}

// Anew is what is still to be sent again, from a log, to a rank that is run again, in the order of operations. The log
// may have another order: it holds what was forwarded for a task before what the task itself sent.
type Anew[M interface{ Sequence() uint64 }] struct {
	messages []M
	sent     uint64 // the operation of the last one sent
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
// the one before: its receiver reports how far it is.
func (n *Anew[M]) Next(a *Account, to int) (m M, ok bool) {
	if len(n.messages) == 0 || n.sent > a.ranks[to].done+a.Operations {
		return m, false
	}
	m, n.messages = n.messages[0], n.messages[1:]
	n.sent = m.Sequence()
	return m, true
}

// Len is the number of messages left.
func (n *Anew[M]) Len() int { return len(n.messages) }

// Hear notes that a rank sent bytes in operation seq. The rank stops sending when seq is too far from what was last
// reported to it, even with the first message that it ever sends.
func (a *Account) Hear(from int, seq uint64, bytes int) {
	r := &a.ranks[from]
	r.heard = max(r.heard, min(seq, never))
	r.heardBytes += bytes
	if seq >= r.told+a.step() || a.much(r) {
		a.makeDue(from)
	}
}

// Owe notes that a rank waits for this task although it sends nothing. It gets reports from now on: for how many
// operations it waits is not known here.
func (a *Account) Owe(to int) {
	a.ranks[to].asked = true
	a.makeDue(to)
}

// makeDue adds a rank to those that get a report when this task has completed more.
func (a *Account) makeDue(to int) {
	if r := &a.ranks[to]; !r.due {
		r.due = true
		a.dues = append(a.dues, to)
	}
}

// much reports whether a rank may soon need grants for what it sends.
func (a *Account) much(r *rank) bool { return r.heardBytes > a.Bytes/4 }

// ripe reports whether a rank that is due gets a report now.
func (a *Account) ripe(r *rank) bool {
	return a.completed >= r.told+a.step() || a.completed > r.told && a.much(r)
}

// telling records the report that a rank gets now. A rank that has already sent much more stays due: it may send nothing
// more before the next report.
func (a *Account) telling(r *rank) {
	r.told, r.heardBytes = a.completed, 0
	r.due = r.asked || r.heard >= a.completed+a.step()
}

// Completed notes that the task has completed an operation.
func (a *Account) Completed() { a.Skip(a.completed + 1) }

// Skip notes that the task does not enter operations up to seq, or has completed them.
func (a *Account) Skip(seq uint64) { a.completed, a.next = seq, 0 }

// Leave notes that the task leaves an operation without its result. It returns true if every rank needs a report: from
// now on, that the task enters later operations does not mean that it has what was sent to it.
func (a *Account) Leave() (tell bool) {
	tell, a.loose = !a.loose, true
	return tell
}

// Tell returns a rank that needs a report now.
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

// Returned notes that a rank's task has returned: no task waits for it, though its process still forwards what arrives.
// Before Fit the call has no effect and must be repeated.
func (a *Account) Returned(rank int) {
	if rank >= len(a.ranks) {
		return
	}
	r := &a.ranks[rank]
	was := a.late(r)
	r.gone = true
	a.settle(r, was)
}

// Died notes that a rank has crashed: nothing that was sent to it is on its way.
func (a *Account) Died(rank int) {
	if a.Returned(rank); rank < len(a.ranks) {
		a.ranks[rank].done, a.ranks[rank].loose = never, false
	}
}

// Restart notes that a rank is run again; tell reports that it needs a report now. The rank has completed nothing, and
// stays due: what it sent before the restart was known here did not count as heard. again says that the restart was
// known already, but the rank may have dropped what was sent to it; what it has reported since is true.
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
