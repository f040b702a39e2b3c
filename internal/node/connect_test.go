package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
)

// All pairs connect at once, and again when all connections are cut at once. In the end there is one
// connection for every pair, and both ends agree on it.
func TestSimultaneousConnects(t *testing.T) {
	const n = 6
	rounds := map[string]int{transport.Shared: short(12, 4), transport.Unix: short(6, 2), transport.TCP: short(8, 3), transport.TLS: short(4, 1)}
	for _, kind := range socketKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			for round := range rounds[kind] {
				ctx := patience(t)
				before := descriptors(t)
				j := start(t, kind, n, nil)
				own := 3 // of a process: the poller, what wakes it, where it listens
				if runtime.GOOS == "linux" {
					own++ // for Go's own poller
				}
				if kind == transport.Unix || kind == transport.Shared {
					own += n - 1 // to learn whether its peers live
				}
				if kind == transport.Shared {
					own++ // its inbox
				}
				meetAll(ctx, j)
				settled(t, j, before+n*own+n*(n-1))
				for range 3 {
					cutAll(j)
					meetAll(ctx, j)
					settled(t, j, before+n*own+n*(n-1))
				}
				j.close()
				if t.Failed() {
					t.Fatalf("round %d", round)
				}
			}
		})
	}
}

// meetAll lets all processes send to all others at once.
func meetAll(ctx context.Context, j *job) {
	j.t.Helper()
	var ready sync.WaitGroup
	ready.Add(len(j.ps))
	j.each(func(m *Member) error {
		ready.Done()
		ready.Wait()
		for r := range m.Size() {
			if r != m.Rank() {
				if err := m.Send(ctx, r, 0, 1, message(10, uint64(r))); err != nil {
					return err
				}
			}
		}
		for r := range m.Size() {
			if r != m.Rank() {
				got, err := m.Recv(ctx, r, 0, 1, "bytes")
				if err != nil {
					return fmt.Errorf("from %d: %w", r, err)
				}
				if err := checkMessage(got.Value, 10, uint64(m.Rank())); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func cutAll(j *job) {
	for _, p := range j.ps {
		p.engine.Lock()
		for r := range p.mesh.peers {
			p.mesh.peers[r].broken(errCut)
		}
		p.engine.Unlock()
	}
}

// settled waits until every process is connected to all others, none waits for a connection, and want
// descriptors are open.
func settled(t *testing.T, j *job, want int) {
	t.Helper()
	var what []string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		what = nil
		for _, p := range j.ps {
			p.engine.Lock()
			for r := range p.mesh.peers {
				q := p.mesh.peers[r]
				if r == p.cfg.Rank {
					continue
				}
				if q.conn == nil || q.way.down != 0 || q.way.accepting || q.way.dialing {
					what = append(what, fmt.Sprintf("process %d to %d: connected %v, %+v", p.cfg.Rank, r, q.conn != nil, q.way))
				}
			}
			if len(p.mesh.up) != len(j.ps)-1 {
				what = append(what, fmt.Sprintf("process %d has %d connections", p.cfg.Rank, len(p.mesh.up)))
			}
			p.engine.Unlock()
		}
		if got := descriptors(t); got != want {
			what = append(what, fmt.Sprintf("%d descriptors, want %d", got, want))
		}
		if what == nil {
			return
		}
	}
	t.Errorf("not settled: %s", strings.Join(what, "; "))
}

// A process asks about a peer that is gone and then suspects it; nothing hangs.
func TestUnreachablePeerIsSuspected(t *testing.T) {
	for _, kind := range socketKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			ctx := patience(t)
			j := start(t, kind, 2, func(c *Config) { c.Silence = 100 * time.Millisecond })
			if err := j.ps[1].Close(); err != nil {
				t.Fatal(err)
			}
			w := j.hosts[0]
			m := j.ps[0].World(0)
			short, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			told := make(chan struct{})
			go func() { // the job's answer
				defer close(told)
				for short.Err() == nil {
					w.mu.Lock()
					n := len(w.suspects)
					w.suspects = nil
					w.mu.Unlock()
					if n > 0 {
						j.ps[0].Tell(Death{Rank: 1, Certain: true, How: "it was not there"})
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
			if err := m.Send(ctx, 1, 0, 1, nil); err != nil && !errors.Is(err, ErrLost) {
				t.Error(err)
			}
			if _, err := m.Recv(short, 1, 0, 1, "bytes"); !errors.Is(err, ErrLost) {
				t.Errorf("recv: %v", err)
			}
			if _, err := m.Do(ctx, &Call{Plan: BarrierPlan()}); !errors.Is(err, ErrLost) {
				t.Errorf("barrier: %v", err)
			}
			<-told
			j.ps[0].engine.Lock()
			left := j.ps[0].mesh.peers[1].left // its goodbye came through: there is nothing to ask
			j.ps[0].engine.Unlock()
			w.mu.Lock()
			if w.asked == 0 && !left {
				t.Error("nobody was asked whether it lives")
			}
			w.mu.Unlock()
		})
	}
}

// A process that has not begun counts as not silent, however long it takes; one that began and is gone
// counts as silent.
func TestWhoHasNotBegunIsNotSuspected(t *testing.T) {
	const silence = 100 * time.Millisecond
	j := startWithout(t, transport.Unix, 3, 2, func(c *Config) { c.Silence = silence })
	accusers := map[int]bool{}
	suspected := func() int { // counts the processes that have suspected it so far
		for i, w := range j.hosts {
			w.mu.Lock()
			if slices.ContainsFunc(w.suspects, func(s string) bool { return strings.HasPrefix(s, "process 2:") }) {
				accusers[i] = true
			}
			w.suspects = nil // on a busy machine others may be, too
			w.mu.Unlock()
		}
		return len(accusers)
	}
	time.Sleep(5 * silence)
	if suspected() > 0 {
		t.Error("it has not begun, and was suspected")
	}
	nowhere := j.ps[0].Endpoint().Addresses()[0]
	nowhere.Path += "nowhere"
	for _, p := range j.ps[:2] {
		p.Peers(Address{Rank: 2, Incarnation: 1, At: nowhere})
	}
	for began := time.Now(); suspected() < 2; time.Sleep(silence / 10) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("it has begun, is silent, and only %d suspect it", len(accusers))
		}
	}
	j.close()
	suspected() // collects the last ones
}
