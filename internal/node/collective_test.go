package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/topology"
)

// modes returns all ways to broadcast that the options offer.
func modes(t testing.TB) map[string]Plan {
	t.Helper()
	all := map[string]Plan{}
	for _, tree := range []string{"binomial", "kary:2", "kary:3", "lame:2", "optimal", "gossip:4"} {
		for _, correction := range []string{"none", "ack", "checked", "opportunistic:2", "optimized:2", "delayed:200", "failure-proof:1"} {
			for _, order := range []topology.Order{topology.Interleaved, topology.InOrder} {
				if tree == "gossip:4" && (order == topology.InOrder || correction == "ack" || correction == "none") {
					continue // not offered, or does not reach all
				}
				plan, err := BroadcastPlan(part(t, tree), part(t, correction), order)
				if err != nil {
					t.Fatal(err)
				}
				all[fmt.Sprintf("%s,%s,%v", tree, correction, order)] = plan
			}
		}
	}
	return all
}

// Every mode brings the root's value to all tasks, whatever the root and the
// number of tasks.
func TestBroadcastModes(t *testing.T) {
	all := modes(t)
	for n := 2; n <= 9; n++ {
		if !extent.Full() && n%3 != 2 {
			continue
		}
		kind := allKinds[n%len(allKinds)]
		t.Run(fmt.Sprintf("%s,%d", kind, n), func(t *testing.T) {
			leavesNothing(t)
			ctx := patience(t)
			j := start(t, kind, n, nil)
			for name, plan := range all {
				if _, err := machines(plan, n, nil, false); err != nil && n > 2 {
					t.Fatal(err)
				} else if err != nil { // a distance of 2 is too far
					continue
				}
				err := each(j.ps, func(m *Member) error {
					for i := range n + 2 {
						root := i % n
						size := []int{0, 10, 3000, eagerMax + 77}[i%4]
						if err := broadcasts1(ctx, m, plan, root, size, uint64(i)); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		})
	}
}

// broadcasts1 takes part in one broadcast and checks the value.
func broadcasts1(ctx context.Context, m *Member, plan Plan, root, size int, seed uint64) error {
	var v []byte
	if m.Rank() == root {
		v = message(size, seed)
	}
	got, err := m.Do(ctx, broadcastCall(plan, root, v))
	if err != nil {
		return fmt.Errorf("broadcast of %d bytes from %d: %w", size, root, err)
	}
	return checkMessage(got.Value, size, seed)
}

// Large values, along trees and with corrections that send them more than once.
func TestLargeBroadcasts(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			ctx := patience(t)
			j := start(t, kind, 5, nil)
			for _, correction := range []string{"none", "checked", "opportunistic:1"} {
				plan := mustPlan(t, "binomial", correction)
				j.each(func(m *Member) error {
					for i := range short(10, 5) {
						if err := broadcasts1(ctx, m, plan, i%5, short(1<<20, 1<<18)+i, uint64(i)); err != nil {
							return err
						}
					}
					_, err := m.Do(ctx, &Call{Plan: BarrierPlan()})
					return err
				})
			}
			for _, p := range j.ps {
				settledEarly(t, p)
			}
		})
	}
}

// settledEarly waits until no value counts as early.
func settledEarly(t *testing.T, p *Process) {
	t.Helper()
	var early int64
	for end := time.Now().Add(hangTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		p.engine.Lock()
		early = p.mesh.early.Used()
		p.engine.Unlock()
		if early == 0 {
			return
		}
	}
	t.Errorf("process %d: %d bytes count as early, though all are taken", p.cfg.Rank, early)
}

// A task that receives values early, more than once and before it calls, frees their memory when it has
// called.
func TestEarlyValuesAreGivenBack(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			ctx := patience(t)
			j := start(t, kind, 4, nil)
			plan := mustPlan(t, "binomial", "checked")
			for round := range 6 {
				var called sync.WaitGroup
				called.Add(3)
				j.each(func(m *Member) error {
					if m.Rank() == 3 {
						called.Wait()
					}
					err := broadcasts1(ctx, m, plan, 0, 1<<20, uint64(round))
					if m.Rank() != 3 {
						called.Done()
					}
					return err
				})
			}
			for _, p := range j.ps {
				settledEarly(t, p)
			}
		})
	}
}

// No task leaves a barrier before the last has entered it.
func TestBarrier(t *testing.T) {
	for _, kind := range allKinds {
		for _, n := range []int{2, 3, 5, 8} {
			ctx := patience(t)
			j := start(t, kind, n, nil)
			var mu sync.Mutex
			entered := map[int]int{}
			j.each(func(m *Member) error {
				for i := range 60 {
					mu.Lock()
					entered[i]++
					mu.Unlock()
					if _, err := m.Do(ctx, &Call{Plan: BarrierPlan()}); err != nil {
						return err
					}
					mu.Lock()
					in := entered[i]
					mu.Unlock()
					if in != n {
						return fmt.Errorf("left barrier %d when %d of %d had entered", i, in, n)
					}
				}
				return nil
			})
			j.close()
		}
	}
}

// Groups have their own ranks, operations and streams.
func TestSplit(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			ctx := patience(t)
			j := start(t, kind, 7, nil)
			plan := mustPlan(t, "binomial", "checked")
			j.each(func(m *Member) error {
				for round := range 5 {
					color := m.Rank() % 3
					if m.Rank() == 6 {
						color = -1
					}
					g, err := m.Split(ctx, color, -m.Rank())
					if err != nil {
						return err
					}
					if color < 0 {
						if g != nil {
							return errors.New("is in a group without a color")
						}
						continue
					}
					if g.Size() != 2 || g.Rank() != map[bool]int{true: 0, false: 1}[m.Rank() >= 3] {
						return fmt.Errorf("rank %d of %d", g.Rank(), g.Size())
					}
					if err := broadcasts1(ctx, g, plan, round%2, 100, uint64(color)); err != nil {
						return err
					}
					if err := exchange(ctx, g, []int{0, 10, 100_000}, 1); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// Several goroutines of a task, each with a fork: while one drives, the others stand by, and the driver
// hands the role on.
func TestForksInParallel(t *testing.T) {
	for _, kind := range allKinds {
		for _, spin := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,spin=%v", kind, spin), func(t *testing.T) {
				leavesNothing(t)
				ctx := patience(t)
				const n, forks, rounds = 3, 8, 60
				j := start(t, kind, n, func(c *Config) { c.Spin = spin })
				plan := mustPlan(t, "binomial", "none")
				j.each(func(m *Member) error {
					all := make([]*Member, forks)
					for f := range all {
						all[f] = m.Fork()
					}
					errs := make([]error, forks)
					var wg sync.WaitGroup
					for f, fork := range all {
						wg.Go(func() { errs[f] = forked(ctx, fork, plan, f, rounds) })
					}
					wg.Wait()
					for _, fork := range all {
						fork.Release()
					}
					return errors.Join(errs...)
				})
			})
		}
	}
}

// forked works in one fork; now and then a context ends a wait.
func forked(ctx context.Context, m *Member, plan Plan, f, rounds int) error {
	n := m.Size()
	for i := range rounds {
		seed := uint64(f<<16 | i)
		switch (i + f) % 4 {
		case 0:
			if err := broadcasts1(ctx, m, plan, i%n, 100*f, seed); err != nil {
				return err
			}
		case 1:
			if _, err := m.Do(ctx, &Call{Plan: BarrierPlan()}); err != nil {
				return err
			}
		case 2:
			if err := m.Send(ctx, (m.Rank()+1)%n, f, 1, message(50, seed)); err != nil {
				return err
			}
			got, err := m.Recv(ctx, (m.Rank()+n-1)%n, f, 1, "bytes")
			if err != nil {
				return err
			}
			if err := checkMessage(got.Value, 50, seed); err != nil {
				return err
			}
		case 3: // no task sends this: the wait ends with the context
			short, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(500))*time.Microsecond)
			_, err := m.Recv(short, (m.Rank()+1)%n, 1000+f, 1, "bytes")
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("nothing was sent, but: %w", err)
			}
		}
	}
	return nil
}

// A waiter that is asked to drive, but leaves because its context ended in that moment, hands the role
// on.
func TestDriverRoleIsNotLost(t *testing.T) {
	leavesNothing(t)
	ctx := patience(t)
	j := start(t, transport.Unix, 2, nil)
	a, b := j.ps[0].World(0), j.ps[1].World(1)
	for i := range 300 {
		// The first drives; of the two that stand by, one leaves just when the first is done.
		short, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		errs := make([]error, 3)
		wg.Go(func() { _, errs[0] = a.Recv(ctx, 1, 1, 1, "bytes"); cancel() })
		standing(t, a.p, 0)
		wg.Go(func() {
			if _, err := a.Recv(short, 1, 2, 1, "bytes"); !errors.Is(err, context.Canceled) {
				errs[1] = fmt.Errorf("recv: %w", err)
			}
		})
		standing(t, a.p, 1)
		wg.Go(func() { _, errs[2] = a.Recv(ctx, 1, 3, 1, "bytes") })
		standing(t, a.p, 2)
		if err := b.Send(ctx, 0, 1, 1, nil); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			cancel()
		}
		if err := b.Send(ctx, 0, 3, 1, nil); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

// standing waits until one goroutine drives, n stand by and the background rests, so that the
// background cannot help.
func standing(t *testing.T, p *Process, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		p.engine.Lock()
		stand, rests := p.engine.Standing()
		p.engine.Unlock()
		if stand == n && rests {
			return
		}
	}
	t.Fatalf("nobody drives, or not %d stand by", n)
}

// A task that computes does not delay a broadcast for the tasks behind it: its process forwards in the
// background.
func TestForwardsWhileComputing(t *testing.T) {
	for _, kind := range allKinds {
		for _, size := range []int{10, 1 << 20} {
			t.Run(fmt.Sprintf("%s,%d", kind, size), func(t *testing.T) {
				leavesNothing(t)
				ctx := patience(t)
				const n = 8
				j := start(t, kind, n, nil)
				plan := mustPlan(t, "kary:1", "none") // a chain
				for round := range 3 {
					calls := make(chan struct{}) // the tasks in the middle call after the last one has the value
					began := time.Now()
					j.each(func(m *Member) error {
						if r := m.Rank(); r != 0 && r != n-1 {
							select {
							case <-calls:
							case <-ctx.Done():
								return errors.New("the last task does not get the value")
							}
						}
						err := broadcasts1(ctx, m, plan, 0, size, uint64(round))
						if m.Rank() == n-1 {
							close(calls)
						}
						return err
					})
					if d := time.Since(began); d > 20*time.Second {
						t.Errorf("it took %v", d)
					}
				}
			})
		}
	}
}

// A root that broadcasts while a leaf does not call runs ahead by a bounded
// number of operations, and goes on when the leaf does.
func TestRootRunsAheadOfLeaf(t *testing.T) {
	rounds := 100_000
	if !extent.Full() {
		rounds = 5000
	}
	for _, kind := range []string{memory, transport.Unix} {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			ctx := patience(t)
			j := start(t, kind, 2, nil)
			plan := mustPlan(t, "binomial", "none")
			before := heapBytes()
			j.each(func(m *Member) error {
				if m.Rank() == 1 { // begins when the root is blocked
					root := j.ps[0].World(0)
					for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
						root.p.engine.Lock()
						blocked, seq := root.ahead.Blocks(root.seq) && len(root.ahead.waiting) > 0, root.seq
						root.p.engine.Unlock()
						if seq > aheadMax+1 {
							return fmt.Errorf("the root is in operation %d", seq)
						}
						if blocked {
							break
						}
						if time.Now().After(end) {
							return fmt.Errorf("the root does not block; it is in operation %d", seq)
						}
					}
				}
				for i := range rounds {
					if err := broadcasts1(ctx, m, plan, 0, 8, uint64(i)); err != nil {
						return err
					}
				}
				return nil
			})
			if grown := int64(heapBytes()) - int64(before); grown > 16<<20 {
				t.Errorf("heap grew by %d bytes", grown)
			}
		})
	}
}

// Tasks that have sent each other nothing for long do not count as late when they send again: credit
// does not end in a deadlock.
func TestRootsChangeAfterLong(t *testing.T) {
	for _, kind := range allKinds {
		for _, correction := range []string{"none", "checked"} {
			t.Run(kind+","+correction, func(t *testing.T) {
				ctx := patience(t)
				const n = 4
				j := start(t, kind, n, nil)
				plan := mustPlan(t, "binomial", correction)
				j.each(func(m *Member) error {
					i := 0
					for root := range n {
						for range aheadMax + 100 + 7*root {
							if err := broadcasts1(ctx, m, plan, root, 8, uint64(i)); err != nil {
								return fmt.Errorf("operation %d: %w", i, err)
							}
							i++
						}
					}
					for range 50 {
						if err := broadcasts1(ctx, m, plan, i%n, 8, uint64(i)); err != nil {
							return fmt.Errorf("operation %d: %w", i, err)
						}
						i++
					}
					return nil
				})
			})
		}
	}
}

// No task waits for the credit of a crashed process's task, not even in a group made after the crash.
func TestDeadNeedNotKeepUp(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			ctx := patience(t)
			j := start(t, kind, 4, nil)
			for _, p := range j.ps[:3] {
				p.Tell(Death{Rank: 3, Certain: true, How: "for the test"})
			}
			plan := mustPlan(t, "binomial", "checked")
			err := each(j.ps[:3], func(m *Member) error {
				for _, g := range []*Member{m, m.Fork()} {
					for i := range 3 * aheadMax {
						if err := broadcasts1(ctx, g, plan, i%3, 8, uint64(i)); err != nil {
							return fmt.Errorf("operation %d: %w", i, err)
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Processes run several tasks each.
func TestTasksShareProcesses(t *testing.T) {
	for _, kind := range socketKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			ctx := patience(t)
			j := start(t, kind, 3, func(c *Config) { c.Tasks = 7 })
			plan := mustPlan(t, "binomial", "checked")
			j.each(func(m *Member) error {
				for i := range short(100, 30) {
					if err := broadcasts1(ctx, m, plan, i%7, 10+i*700, uint64(i)); err != nil {
						return err
					}
					if _, err := m.Do(ctx, &Call{Plan: BarrierPlan()}); err != nil {
						return err
					}
					if err := m.Send(ctx, (m.Rank()+1)%7, 0, 1, message(i*1000, uint64(i))); err != nil {
						return err
					}
					got, err := m.Recv(ctx, (m.Rank()+6)%7, 0, 1, "bytes")
					if err != nil {
						return err
					}
					if err := checkMessage(got.Value, i*1000, uint64(i)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// A task that has not called yet passes values on. The task behind it gets credit for everything that
// was completed there, even if nothing more is sent.
func TestCreditForWhatWasPassedOn(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			ctx := patience(t)
			j := start(t, kind, 3, nil)
			plan := mustPlan(t, "kary:1", "none")             // 0 → 1 → 2
			const first, all = 100, aheadMax + aheadMax/4 + 1 // as far as the credit for the first operations goes
			var passed sync.WaitGroup                         // the last task begins when it has heard of all operations
			passed.Add(1)
			go func() {
				defer passed.Done()
				m := j.ps[2].World(2)
				for ctx.Err() == nil {
					m.p.engine.Lock()
					n := m.ops.count
					m.p.engine.Unlock()
					if n >= all {
						return
					}
					time.Sleep(100 * time.Microsecond)
				}
			}()
			j.each(func(m *Member) error {
				for i := range all {
					if m.Rank() == 2 && i == 0 || m.Rank() == 1 && i == first {
						passed.Wait()
					}
					if err := broadcasts1(ctx, m, plan, 0, 8, uint64(i)); err != nil {
						return fmt.Errorf("operation %d: %w", i, err)
					}
				}
				_, err := m.Do(ctx, &Call{Plan: BarrierPlan()})
				return err
			})
		})
	}
}
