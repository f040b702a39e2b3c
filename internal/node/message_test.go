package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
)

// Messages arrive byte for byte and in order, whatever their size, on several
// tags at once and in both directions.
func TestMessages(t *testing.T) {
	sizes := []int{0, 1, 7, 2047, 2048, 2049, 4097, eagerMax - 1, eagerMax, eagerMax + 1, partMax + eagerMax + 1, short(8<<20, 1<<20), 3, 0, 1001}
	for _, kind := range allKinds {
		for _, spin := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,spin=%v", kind, spin), func(t *testing.T) {
				leavesNothing(t)
				ctx := patience(t)
				j := start(t, kind, 2, func(c *Config) { c.Spin = spin })
				j.each(func(m *Member) error {
					return exchange(ctx, m, sizes, 3)
				})
			})
		}
	}
}

// exchange sends messages of the sizes to the other of two tasks, on this many tags by turns, and
// receives as many.
func exchange(ctx context.Context, m *Member, sizes []int, tags int) error {
	other := 1 - m.Rank()
	for tag := range tags {
		for i, size := range sizes {
			if err := m.Send(ctx, other, tag, 1, message(size, uint64(m.Rank()<<16|tag<<8|i))); err != nil {
				return err
			}
		}
	}
	for i, size := range sizes {
		for tag := range tags {
			got, err := m.Recv(ctx, other, tag, 1, "bytes")
			if err != nil {
				return err
			}
			if err := checkMessage(got.Value, size, uint64(other<<16|tag<<8|i)); err != nil {
				return fmt.Errorf("tag %d: %w", tag, err)
			}
		}
	}
	return nil
}

// A task sends a message to itself.
func TestMessageToOneself(t *testing.T) {
	for _, kind := range allKinds {
		ctx := patience(t)
		j := start(t, kind, 2, nil)
		j.each(func(m *Member) error {
			for i, size := range []int{0, 5, eagerMax + 1, 1 << 20} {
				if err := m.Send(ctx, m.Rank(), 4, 1, message(size, uint64(i))); err != nil {
					return err
				}
			}
			for i, size := range []int{0, 5, eagerMax + 1, 1 << 20} {
				got, err := m.Recv(ctx, m.Rank(), 4, 1, "bytes")
				if err != nil {
					return err
				}
				if err := checkMessage(got.Value, size, uint64(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// One message has more than 4 GiB. The test needs 9 GiB of memory, so it runs only on request.
func TestHugeMessage(t *testing.T) {
	if testing.Short() || os.Getenv("COPPICE_HUGE") != "1" {
		t.Skip("needs 9 GiB of memory; to run it: COPPICE_HUGE=1 go test -run HugeMessage ./internal/node, or bash .ci/run integration")
	}
	const size = 4<<30 + 12352 // whole words, so that every byte is compared
	ctx := patienceOf(t, 5*time.Minute)
	j := start(t, transport.Unix, 2, nil)
	began := time.Now()
	j.each(func(m *Member) error {
		if m.Rank() == 0 {
			return m.Send(ctx, 1, 0, 1, message(size, 9))
		}
		got, err := m.Recv(ctx, 0, 0, 1, "bytes")
		if err != nil {
			return err
		}
		if len(got.Value) != size {
			return fmt.Errorf("got %d bytes, want %d", len(got.Value), size)
		}
		const piece = 1 << 20    // the pattern, without a third copy of it
		x := le64(message(8, 9)) // the first word
		for at := 0; at < size; at += piece {
			b := got.Value[at:min(at+piece, size)]
			for i := 0; i+8 <= len(b); i += 8 {
				if le64(b[i:]) != x {
					return fmt.Errorf("differs at byte %d", at+i)
				}
				x = x*6364136223846793005 + 1442695040888963407
			}
		}
		return nil
	})
	t.Logf("%d bytes in %v", size, time.Since(began))
}

func le64(b []byte) (v uint64) {
	_ = b[7]
	for i := range 8 {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}

// Two processes send 64 MiB to each other before either receives.
func TestBothSendBeforeTheyReceive(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			ctx := patience(t)
			j := start(t, kind, 2, nil)
			size := short(64<<20, 16<<20)
			var sent sync.WaitGroup
			sent.Add(2)
			j.each(func(m *Member) error {
				err := m.Send(ctx, 1-m.Rank(), 1, 1, message(size, uint64(m.Rank())))
				sent.Done()
				if err != nil {
					return err
				}
				sent.Wait()
				got, err := m.Recv(ctx, 1-m.Rank(), 1, 1, "bytes")
				if err != nil {
					return err
				}
				return checkMessage(got.Value, size, uint64(1-m.Rank()))
			})
		})
	}
}

// A receiver that never receives: Send blocks at the bounds, memory is bounded,
// the context ends it, and the other streams and operations between the same two
// tasks go on.
func TestReceiverThatNeverReceives(t *testing.T) {
	const million = 1_000_000
	for _, kind := range allKinds {
		for _, size := range []int{0, 8, 100_000} {
			t.Run(fmt.Sprintf("%s,%d", kind, size), func(t *testing.T) {
				leavesNothing(t)
				ctx := patience(t)
				j := start(t, kind, 2, func(c *Config) { c.Buffer = 8 << 20 })
				before := heapBytes()
				flood, stop := context.WithCancelCause(ctx)
				enough := errors.New("enough")
				blocked := make(chan int, 1)
				go func() {
					for i := range million {
						if err := j.ps[0].World(0).Send(flood, 1, 7, 1, make([]byte, size)); err != nil {
							if !errors.Is(err, enough) {
								t.Errorf("after %d messages: %v", i, err)
							}
							blocked <- i
							return
						}
					}
					blocked <- million
				}()
				// Until Send blocks: then a Send waits for room and nothing moves.
				for !wantsRoom(j.ps[0]) {
					select {
					case n := <-blocked:
						t.Fatalf("sent %d messages without blocking", n)
					case <-ctx.Done():
						t.Fatal("does not block")
					case <-time.After(time.Millisecond):
					}
				}
				grown := int64(heapBytes()) - int64(before)
				plan := mustPlan(t, "binomial", "none")
				j.each(func(m *Member) error {
					if err := exchange(ctx, m, []int{0, 1, 100, 1000, 100_000}, 2); err != nil {
						return err
					}
					for i := range short(500, 100) {
						v := message(1000, uint64(i))
						got, err := m.Do(ctx, broadcastCall(plan, i%2, v))
						if err != nil {
							return err
						}
						if err := checkMessage(got.Value, 1000, uint64(i)); err != nil {
							return err
						}
						if _, err := m.Do(ctx, &Call{Plan: BarrierPlan()}); err != nil {
							return err
						}
					}
					return nil
				})
				stop(enough)
				select {
				case n := <-blocked:
					t.Logf("blocked after %d messages of %d bytes; heap grew by %d KiB", n, size, grown>>10)
				case <-ctx.Done():
					t.Fatal("the context does not end it")
				}
				if limit := int64(8<<20 + earlyMax + 3*linkRoom); grown > limit {
					t.Errorf("heap grew by %d bytes; allowed: %d", grown, limit)
				}
				j.ps[0].engine.Lock()
				if n := len(j.ps[0].groups.wanting); n > 0 {
					t.Errorf("%d who gave up still want room", n)
				}
				j.ps[0].engine.Unlock()
			})
		}
	}
}

// wantsRoom reports whether a Send waits.
func wantsRoom(p *Process) bool {
	p.engine.Lock()
	defer p.engine.Unlock()
	for _, w := range p.groups.wanting {
		if !w.Done() {
			return true
		}
	}
	return false
}

// Once the receiver receives, everything that was sent is there.
func TestSlowReceiver(t *testing.T) {
	const n = 5000
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			ctx := patience(t)
			j := start(t, kind, 2, func(c *Config) { c.Buffer = 64 << 10 })
			j.each(func(m *Member) error {
				for i := range n {
					if m.Rank() == 0 {
						if err := m.Send(ctx, 1, 2, 1, message(i%300, uint64(i))); err != nil {
							return err
						}
						continue
					}
					if i == 0 {
						for !wantsRoom(j.ps[0]) {
							time.Sleep(time.Millisecond)
						}
					}
					got, err := m.Recv(ctx, 0, 2, 1, "bytes")
					if err != nil {
						return err
					}
					if err := checkMessage(got.Value, i%300, uint64(i)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// A context that ends also ends the waits; the process works on.
func TestContextsEndWaits(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			j := start(t, kind, 2, nil)
			m := j.ps[0].World(0)
			why := errors.New("had enough")
			for i := range 20 {
				ctx, cancel := context.WithCancelCause(context.Background())
				time.AfterFunc(time.Duration(i%4)*time.Millisecond, func() { cancel(why) })
				began := time.Now()
				if _, err := m.Recv(ctx, 1, 3, 1, "bytes"); !errors.Is(err, why) {
					t.Fatalf("recv: %v", err)
				}
				if d := time.Since(began); d > 5*time.Second {
					t.Errorf("it took %v", d)
				}
			}
			ctx := patience(t)
			j.each(func(m *Member) error { return exchange(ctx, m, []int{5, 100_000}, 2) })
		})
	}
}
