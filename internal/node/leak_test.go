package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/protocol/collective"
)

// Ten thousand operations leave nothing, nor do failed ones.
func TestNothingIsLeft(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			ctx := patience(t)
			j := start(t, kind, 3, nil)
			plans := []Plan{mustPlan(t, "binomial", "none"), mustPlan(t, "binomial", "checked")}
			work := func(rounds int) {
				j.each(func(m *Member) error { return mixed(ctx, m, plans, rounds) })
			}
			work(1600) // recent values, buffers and maps have their size
			before, fds := heapBytes(), descriptors(t)
			work(short(2500, 500)) // with four operations each
			if grown := int64(heapBytes()) - int64(before); grown > 2<<20 {
				t.Errorf("heap grew by %d bytes", grown)
			}
			if n := descriptors(t); n > fds {
				t.Errorf("%d descriptors, %d before", n, fds)
			}
			for _, p := range j.ps {
				leftovers(t, p)
			}
		})
	}
}

// mixed runs rounds of four operations each, among them failed ones.
func mixed(ctx context.Context, m *Member, plans []Plan, rounds int) error {
	n := m.Size()
	for i := range rounds {
		if err := broadcasts1(ctx, m, plans[i%len(plans)], i%n, 100, uint64(i)); err != nil {
			return err
		}
		if err := m.Send(ctx, (m.Rank()+1)%n, 1, 1, message(30, uint64(i))); err != nil {
			return err
		}
		if _, err := m.Recv(ctx, (m.Rank()+n-1)%n, 1, 1, "bytes"); err != nil {
			return err
		}
		if i%10 != 0 {
			continue
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := m.Recv(over, (m.Rank()+1)%n, 2, 1, "bytes"); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("recv that was given up: %w", err)
		}
		f := m.Fork()
		if err := broadcasts1(ctx, f, plans[0], i%n, 10, uint64(i)); err != nil {
			return err
		}
		if _, err := f.Do(ctx, &Call{Plan: BarrierPlan()}); err != nil {
			return err
		}
		f.Release()
		if _, err := m.Do(ctx, &Call{Plan: BarrierPlan()}); err != nil {
			return err
		}
	}
	return nil
}

// leftovers checks that a process at rest holds nothing unneeded.
func leftovers(t *testing.T, p *Process) {
	t.Helper()
	var what string
	for end := time.Now().Add(hangTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		p.engine.Lock()
		what = ""
		switch stand, _ := p.engine.Standing(); {
		case stand > 0, len(p.groups.wanting) > 0:
			what = fmt.Sprintf("%d stand, %d want room", stand, len(p.groups.wanting))
		case p.groups.queued != 0 || p.mesh.early.Used() != 0:
			what = fmt.Sprintf("%d queued, %d early", p.groups.queued, p.mesh.early.Used())
		case len(p.groups.members) > 1+keptMax:
			what = fmt.Sprintf("%d groups", len(p.groups.members))
		case p.engine.Timers() > 20:
			what = fmt.Sprintf("%d timers", p.engine.Timers())
		}
		for _, m := range p.groups.members {
			if m.ops.count > 0 {
				what = fmt.Sprintf("%d operations of a group of %d", m.ops.count, m.Size())
			}
		}
		for r := range p.mesh.peers {
			if q := p.mesh.peers[r]; q.asked.Len()+len(q.parts)+len(q.queue) > 0 {
				what = fmt.Sprintf("to process %d: %d asked, %d in parts, %d queued", r, q.asked.Len(), len(q.parts), len(q.queue))
			}
		}
		p.engine.Unlock()
		if what == "" {
			return
		}
	}
	t.Errorf("process %d: %s", p.cfg.Rank, what)
}

// Close in the middle of traffic ends everything that is under way soon, leaves nothing, and does not
// hang.
func TestCloseInTheMiddle(t *testing.T) {
	const rounds = 6 // each run draws other moments
	for _, kind := range socketKinds {
		t.Run(kind, func(t *testing.T) {
			rng := dice(t)
			for range rounds {
				closeInTheMiddle(t, kind, time.Duration(rng.IntN(4000))*time.Microsecond, rng.IntN(3))
			}
		})
	}
}

func closeInTheMiddle(t *testing.T, kind string, after time.Duration, alone int) {
	t.Run("", func(t *testing.T) {
		leavesNothing(t)
		ctx := patience(t)
		j := start(t, kind, 3, nil)
		plan := mustPlan(t, "binomial", "checked")
		var wg sync.WaitGroup
		for r, p := range j.ps {
			m := p.World(r)
			work := []func(i int) error{
				func(i int) error { return m.Send(ctx, (r+1)%3, 1, 1, message(sizeOf(uint64(i)), 1)) },
				func(int) error { _, err := m.Recv(ctx, (r+2)%3, 1, 1, "bytes"); return err },
				func(i int) error {
					_, err := m.Do(ctx, broadcastCall(plan, i%3, message(sizeOf(uint64(i)), 1)))
					return err
				},
				func(int) error { _, err := m.Recv(ctx, (r+1)%3, 9, 1, "bytes"); return err },
			}
			for _, do := range work {
				wg.Go(func() {
					for i := 0; ; i++ {
						if err := do(i); err != nil {
							if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
								t.Errorf("it hung: %v", err)
							}
							return
						}
					}
				})
			}
		}
		time.Sleep(after)
		if alone > 0 { // one goes before the others
			if err := j.ps[alone].Close(); err != nil {
				t.Error(err)
			}
		}
		j.close()
		wg.Wait()
	})
}

// A task that does not know the algorithm of a broadcast waits for the root alone only if the algorithm is the same for all sizes.
// Otherwise a task whose parent is dead would wait for ever.
func TestOpenBroadcastMayNeedAnybody(t *testing.T) {
	flat := collective.Rule{Op: collective.Broadcast, Algorithm: collective.Flat}
	large := collective.Rule{Op: collective.Broadcast, Bytes: 100, Algorithm: collective.Binomial, Span: 50}
	for _, c := range []struct {
		rules collective.Table
		want  int
	}{{collective.Table{flat}, 1}, {collective.Table{flat, large}, 5}} {
		j := start(t, memory, 5, func(cfg *Config) { cfg.Rules = c.rules })
		m := j.ps[4].World(4)
		if got := m.ancestors(m.Choose(collective.Broadcast, Choice{Bytes: Unknown})); len(got) != c.want {
			t.Errorf("%v: it needs %v", c.rules, got)
		}
	}
}

// Parts of other lengths need no other schedule, in an operation whose plan says which lengths they have.
func TestLengthsShareASchedule(t *testing.T) {
	j := start(t, memory, 2, nil)
	m := j.ps[0].World(0)
	for lengths := range uint16(100) {
		plan := m.Choose(collective.ReduceScatter, Choice{Bytes: 8, Lengths: lengths})
		if _, err := m.factory(plan); err != nil || plan.fixArg != lengths {
			t.Fatal(plan, err)
		}
	}
	if len(m.factories) != 1 {
		t.Errorf("%d schedules are kept", len(m.factories))
	}
}
