package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
)

// cutsVariable is the environment variable with the number of cuts:
//
//	COPPICE_CUTS=20000 go test -count=1 -run '^TestCutConnections$' ./internal/node
const cutsVariable = "COPPICE_CUTS"

// Connections are cut at random points, 4,000 times in all: streams, and collective operations that run
// meanwhile, lose, duplicate and reorder nothing.
func TestCutConnections(t *testing.T) {
	all := short(2000, 500)
	if n, err := strconv.Atoi(os.Getenv(cutsVariable)); err == nil {
		all = n
	}
	percent := map[string]int{transport.Shared: 35, transport.Unix: 30, transport.TCP: 25, transport.TLS: 10} // a cut of TLS costs a handshake
	total := 0
	for _, kind := range socketKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			total += cutting(t, kind, all*percent[kind]/100)
		})
	}
	t.Logf("%d connections cut", total)
}

// cutting makes traffic among four processes while their connections are cut this many times.
func cutting(t *testing.T, kind string, cuts int) (made int) {
	const n = 4
	ctx := patienceOf(t, 90*time.Second)
	j := start(t, kind, n, func(c *Config) { c.Spin = kind == transport.TCP })
	rng := dice(t)
	var stop atomic.Bool
	var streams sync.WaitGroup
	var messages, operations atomic.Int64
	fail := func(err error) {
		if err != nil {
			t.Error(err)
			stop.Store(true)
		}
	}
	for from := range n {
		for to := range n {
			if from == to {
				continue
			}
			streams.Go(func() { fail(stream(ctx, j.ps[from].World(from), to, &stop)) })
			streams.Go(func() { fail(drain(ctx, j.ps[to].World(to), from, &messages)) })
		}
	}
	plans := []Plan{mustPlan(t, "binomial", "none"), mustPlan(t, "binomial", "checked"), mustPlan(t, "kary:2", "optimized:1"), mustPlan(t, "gossip:3", "checked")}
	for r := range n {
		streams.Go(func() { fail(operate(ctx, j.ps[r].World(r), plans, &stop, &operations)) })
	}
	began := time.Now()
	made = cutter(ctx, j, rng, cuts, &stop)
	took := time.Since(began)
	stop.Store(true)
	streams.Wait()
	if made < cuts && !t.Failed() {
		t.Errorf("%d cuts, want %d", made, cuts)
	}
	t.Logf("%s: %d cuts in %v, %d messages and %d operations meanwhile", kind, made, took.Round(time.Millisecond), messages.Load(), operations.Load())
	return made
}

// cutter cuts connections at random moments.
func cutter(ctx context.Context, j *job, rng *rand.Rand, cuts int, stop *atomic.Bool) (made int) {
	for made < cuts && ctx.Err() == nil && !stop.Load() {
		p, r := j.ps[rng.IntN(len(j.ps))], rng.IntN(len(j.ps))
		if r != p.cfg.Rank && cut(j, p, r, rng.IntN(6)) {
			made++
		}
		if rng.IntN(4) == 0 { // a moment, so that something is under way
			time.Sleep(time.Duration(rng.IntN(400)) * time.Microsecond)
		}
	}
	return made
}

var errCut = errors.New("cut by the test")

// cut cuts the connection of a process to another, in one of several ways.
func cut(j *job, p *Process, rank, how int) bool {
	p.engine.Lock()
	q := p.mesh.peers[rank]
	if q.conn == nil {
		p.engine.Unlock()
		return false
	}
	switch how {
	case 0: // this end notices first
		q.broken(errCut)
	case 1: // both ends notice; bytes in flight still arrive
		shutdown(q.conn.Fd(), true)
	case 2: // the other end notices first
		shutdown(q.conn.Fd(), false)
	case 3, 4: // bytes in flight are lost
		reset(p, q)
	case 5: // both ends at once
		reset(p, q)
		p.engine.Unlock()
		o := j.ps[rank]
		o.engine.Lock()
		if q := o.mesh.peers[p.cfg.Rank]; q.conn != nil {
			q.broken(errCut)
		}
		o.engine.Unlock()
		return true
	}
	p.engine.Unlock()
	return true
}

// sizeOf returns the size of the i-th message of a stream: small ones, some in parts.
func sizeOf(i uint64) int {
	switch h := i * 0x9e3779b97f4a7c15 >> 32; {
	case h%61 == 0:
		return int(h % 700_000)
	case h%7 == 0:
		return int(h % 20_000)
	default:
		return int(h % 200)
	}
}

// stream sends messages until it is time to stop, the last of them empty.
func stream(ctx context.Context, m *Member, to int, stop *atomic.Bool) error {
	for i := uint64(1); ; i++ {
		if stop.Load() {
			return m.Send(ctx, to, 1, 1, nil)
		}
		if err := m.Send(ctx, to, 1, 1, message(8+sizeOf(i), i)); err != nil {
			return err
		}
		if i%64 == 0 { // not further ahead than that, so that it ends soon
			if _, err := m.Recv(ctx, to, 2, 1, "bytes"); err != nil {
				return err
			}
		}
	}
}

// drain receives what stream sends.
func drain(ctx context.Context, m *Member, from int, count *atomic.Int64) error {
	for i := uint64(1); ; i++ {
		got, err := m.Recv(ctx, from, 1, 1, "bytes")
		if err != nil {
			return err
		}
		if len(got.Value) == 0 {
			return nil
		}
		if err := checkMessage(got.Value, 8+sizeOf(i), i); err != nil {
			return fmt.Errorf("from %d to %d: %w", from, m.Rank(), err)
		}
		count.Add(1)
		if i%64 == 0 {
			if err := m.Send(ctx, from, 2, 1, nil); err != nil {
				return err
			}
		}
	}
}

// operate runs broadcasts and barriers until task 0 broadcasts that it is time to stop.
func operate(ctx context.Context, m *Member, plans []Plan, stop *atomic.Bool, count *atomic.Int64) error {
	for i := 0; ; i++ {
		root := i % m.Size()
		size := sizeOf(uint64(i)) + 9
		v := message(size, uint64(i))
		v[0] = 0
		if root == 0 && m.Rank() == 0 && stop.Load() {
			v[0] = 1
		}
		if m.Rank() != root {
			v = nil
		}
		got, err := m.Do(ctx, broadcastCall(plans[i%len(plans)], root, v))
		if err != nil {
			return fmt.Errorf("broadcast %d: %w", i, err)
		}
		last := len(got.Value) > 0 && got.Value[0] == 1
		want := message(size, uint64(i))
		want[0] = got.Value[0]
		if string(want) != string(got.Value) {
			return fmt.Errorf("broadcast %d from %d to %d: %d bytes differ from the %d that were sent", i, root, m.Rank(), len(got.Value), size)
		}
		if i%3 == 0 {
			if _, err := m.Do(ctx, &Call{Plan: BarrierPlan()}); err != nil {
				return fmt.Errorf("barrier %d: %w", i, err)
			}
		}
		if m.Rank() == 0 {
			count.Add(1)
		}
		if last {
			return nil
		}
	}
}
