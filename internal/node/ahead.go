package node

import (
	"context"
	"slices"

	"github.com/coppice-go/coppice/internal/node/engine"
)

// ahead keeps a task from running ahead of those it sends to.
type ahead struct {
	ranks   []aheadRank
	dues    []int // the ranks that are due
	behind  int   // ranks that are too far behind
	waiting []*engine.Waiter
}

// aheadRank is what is known of one rank.
type aheadRank struct {
	sent  uint64 // the last operation in which something was sent to it
	done  uint64 // the operations it has completed, as far as is known
	told  uint64 // the operations that it was told this task has completed
	heard uint64 // the last operation in which it sent something
	loose bool   // it has left operations without their result
	due   bool   // that is long after what it was told, so it is to be told again

	sentBytes  int // since it last told what it has completed
	heardBytes int // since it was last told
}

func (a *ahead) fit(n int) {
	if a.ranks == nil {
		a.ranks = make([]aheadRank, n)
	}
}

func (a *ahead) late(rank int) bool { return a.ranks[rank].sent > a.ranks[rank].done+aheadMax }

// send takes note that a rank is sent so many bytes in an operation. It returns how
// many of them may go without its grant.
func (a *ahead) send(m *Member, to int, seq uint64, bytes int) (eager int) {
	if m.p.roster.Gone() {
		if g := m.goneRank(to); g.Dead || g.Returned {
			return eagerMax
		}
	}
	a.fit(m.Size())
	eager = eagerMax
	if a.ranks[to].sentBytes += bytes; a.ranks[to].sentBytes > aheadBytes {
		eager = inlineMax
	}
	was := a.late(to)
	a.ranks[to].sent = max(a.ranks[to].sent, seq)
	if !was && a.late(to) {
		a.behind++
	}
	return eager
}

func (a *ahead) credited(m *Member, from int, seq uint64) {
	a.fit(m.Size())
	was := a.late(from)
	a.ranks[from].sentBytes = 0
	a.ranks[from].done = max(a.ranks[from].done, min(seq, 1<<62))
	if was && !a.late(from) {
		a.behind--
	}
	m.repeatMore(from)
	a.look(m)
}

// blocks tells whether the task must wait for one that is far behind. What its
// machine passed on before the task came to it is no reason to: two tasks could
// wait for each other.
func (a *ahead) blocks(m *Member) bool {
	if m.unsent > unsentMax {
		return true
	}
	if a.behind == 0 {
		return false
	}
	for r := range a.ranks {
		if a.late(r) && m.seq >= a.ranks[r].done+aheadMax {
			return true
		}
	}
	return false
}

// passed tells whether all who were sent anything have completed an operation: they
// have all that was sent to them in it.
func (a *ahead) passed(seq uint64) bool {
	for i := range a.ranks {
		if r := &a.ranks[i]; r.sent > 0 && (r.done < seq || r.loose) {
			return false
		}
	}
	return true
}

func (a *ahead) look(m *Member) {
	if len(a.waiting) > 0 && !a.blocks(m) {
		for _, w := range a.waiting {
			m.p.engine.Complete(w)
		}
		a.waiting = nil
	}
}

// tellLoose tells all that the task leaves an operation without its result: that it
// comes to others does not mean that it has what was sent to it.
func (m *Member) tellLoose() {
	if m.loose || m.p.dead {
		return
	}
	m.loose = true
	for r := range m.Size() {
		if r != m.rank {
			m.tellLooseTo(r)
		}
	}
}

func (m *Member) tellLooseTo(rank int) {
	e := m.to(rank)
	e.plan, e.kind = Plan{op: opCredit}, creditLoose
	m.peer(rank).send(e, nil, nil)
}

// What a credit is about.
const (
	creditOperations = iota
	creditStream
	creditLoose
)

// entered takes note that a rank has come to an operation: it has completed those
// before.
func (a *ahead) entered(m *Member, from int, seq uint64) {
	a.fit(m.Size())
	if seq-1 > a.ranks[from].done && seq <= m.seq+aheadMax {
		a.credited(m, from, seq-1)
	}
}

// hear takes note that a rank sent so many bytes in an operation. It does not go on
// if that is too far from what it was told, be it the first it ever sent.
func (a *ahead) hear(m *Member, from int, seq uint64, bytes int) {
	a.fit(m.Size())
	r := &a.ranks[from]
	r.heard = max(r.heard, min(seq, 1<<62))
	r.heardBytes += bytes
	if r.due || seq < r.told+aheadMax/4 && r.heardBytes < aheadBytes/4 {
		return
	}
	r.due = true
	a.dues = append(a.dues, from)
	a.tell(m)
}

// owe makes the task tell a rank what it has completed although that sent nothing:
// it was asked to wait for this task.
func (a *ahead) owe(m *Member, rank int) {
	a.fit(m.Size())
	if !a.ranks[rank].due {
		a.ranks[rank].due = true
		a.dues = append(a.dues, rank)
	}
	a.tell(m)
}

// completed takes note that the task has completed an operation, and tells those
// who send to it once in a while.
func (a *ahead) completed(m *Member) {
	m.taken++
	if len(a.dues) > 0 {
		a.tell(m)
	}
}

// tell tells those who are due what the task has completed. Who has sent much more
// already stays due: it may send nothing more before it is told again.
func (a *ahead) tell(m *Member) {
	a.dues = slices.DeleteFunc(a.dues, func(r int) bool {
		much := a.ranks[r].heardBytes >= aheadBytes/4 && m.taken > a.ranks[r].told
		if m.taken < a.ranks[r].told+aheadMax/4 && !much {
			return false
		}
		a.ranks[r].told, a.ranks[r].heardBytes = m.taken, 0
		a.ranks[r].due = a.ranks[r].heard >= m.taken+aheadMax/4
		e := m.to(r)
		e.seq, e.plan = m.taken, Plan{op: opCredit}
		m.peer(r).tell(e)
		return !a.ranks[r].due
	})
}

// gone takes note that a rank need not be waited for.
func (a *ahead) gone(m *Member, rank int) {
	if m.unsent > 0 {
		m.peer(rank).waive(m.taskOf(rank))
	}
	if a.ranks == nil {
		return
	}
	if a.late(rank) {
		a.behind--
	}
	a.ranks[rank].done = 1 << 62
	a.look(m)
}

// catchUp waits until nobody is too far behind.
func (m *Member) catchUp(ctx context.Context, op string) error {
	for m.ahead.blocks(m) {
		w := &engine.Waiter{}
		m.ahead.waiting = append(m.ahead.waiting, w)
		if err := m.p.engine.Wait(ctx, w); err != nil {
			m.ahead.waiting = slices.DeleteFunc(m.ahead.waiting, func(o *engine.Waiter) bool { return o == w })
			return &Failure{Op: op, Err: err}
		}
		if err := m.usable(op); err != nil {
			return err
		}
		if m.aborted() {
			return nil // it will see
		}
	}
	return nil
}
