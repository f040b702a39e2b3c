package runtime

import (
	"context"
	"slices"
)

// ahead keeps a task from running ahead of those it sends to.
type ahead struct {
	sent    []uint64 // by rank: the last operation in which something was sent to it
	done    []uint64 // by rank: the operations it has completed, as far as is known
	heard   []uint64 // by rank: the last operation in which it sent something, told or not
	told    uint64
	behind  int // ranks that are too far behind
	waiting []*waiter
}

func (a *ahead) fit(n int) {
	if a.sent == nil {
		a.sent, a.done, a.heard = make([]uint64, n), make([]uint64, n), make([]uint64, n)
	}
}

func (a *ahead) late(rank int) bool { return a.sent[rank] > a.done[rank]+aheadMax }

func (a *ahead) send(m *Member, to int, seq uint64) {
	a.fit(m.Size())
	was := a.late(to)
	a.sent[to] = max(a.sent[to], seq)
	if !was && a.late(to) {
		a.behind++
	}
}

func (a *ahead) credited(m *Member, from int, seq uint64) {
	a.fit(m.Size())
	was := a.late(from)
	a.done[from] = max(a.done[from], seq)
	if was && !a.late(from) {
		a.behind--
		a.look(m)
	}
}

func (a *ahead) look(m *Member) {
	if a.behind == 0 {
		for _, w := range a.waiting {
			m.p.complete(w)
		}
		a.waiting = nil
	}
}

// completed takes note that the task has completed an operation, and tells those
// who send to it once in a while.
func (a *ahead) completed(m *Member) {
	m.taken++
	if m.taken-a.told < aheadMax/4 {
		return
	}
	a.told = m.taken
	if a.heard == nil {
		return
	}
	for r := range a.heard {
		if a.heard[r] != 0 {
			a.heard[r] = 0
			e := m.to(r)
			e.seq, e.plan = m.taken, Plan{op: opCredit}
			m.peer(r).tell(e)
		}
	}
}

// gone takes note that a rank need not be waited for.
func (a *ahead) gone(m *Member, rank int) {
	if a.sent == nil {
		return
	}
	if a.late(rank) {
		a.behind--
	}
	a.done[rank] = 1 << 62
	a.look(m)
}

// catchUp waits until nobody is too far behind.
func (m *Member) catchUp(ctx context.Context, op string) error {
	for m.ahead.behind > 0 {
		w := &waiter{}
		m.ahead.waiting = append(m.ahead.waiting, w)
		if err := m.p.wait(ctx, w); err != nil {
			m.ahead.waiting = slices.DeleteFunc(m.ahead.waiting, func(o *waiter) bool { return o == w })
			return &Failure{Op: op, Err: err}
		}
		if err := m.usable(op); err != nil {
			return err
		}
	}
	return nil
}
