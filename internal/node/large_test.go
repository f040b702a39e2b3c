package node

import (
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol/collective"
)

// However large a value is, a process copies and combines little of it at a time while it holds its
// lock: everything else in the process waits for the lock.
func TestLargeValuesAreNotWorkedOnUnderTheLock(t *testing.T) {
	size := 4*foldMax + 8
	ops := []collective.Op{collective.Broadcast, collective.AllToAll, collective.Reduce, collective.Scatter, collective.Gather, collective.AllGather, collective.AllReduce, collective.Scan, collective.ExScan, collective.ReduceScatter}
	if testing.Short() { // the race detector, which is used with -short, is slow
		ops = ops[:3]
	}
	for p := short(2, 3); p <= 3; p++ {
		for _, op := range ops {
			t.Run(fmt.Sprintf("%v,%d", op, p), func(t *testing.T) {
				j := start(t, transport.Unix, p, func(c *Config) {
					c.Buffer = 1 << 32
					c.Adopt = func(int, int, int) {}
				})
				rule := collective.Default.Choose(collective.Spec{Op: op, P: p}, int64(size))
				x := trial{op: op, by: rule.Algorithm, size: size, spans: 1, seed: 5}
				if rule.Span > 0 {
					x.spans = size / int(rule.Span)
				}
				ctx, want := patience(t), x.want(p)
				err := each(j.ps, func(m *Member) error {
					if err := x.run(ctx, m, want[m.Rank()]); err != nil || op != collective.Broadcast {
						return err
					}
					return broadcasts1(ctx, m, mustPlan(t, "binomial", "none"), 0, size, 7)
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range j.ps {
					p.engine.Lock()
					if p.engine.WorkedMax() > 2*foldMax { // copies are in small pieces
						t.Errorf("process %d copies and combines %d bytes at a time; allowed: %d", p.cfg.Rank, p.engine.WorkedMax(), 2*foldMax)
					}
					p.engine.Unlock()
				}
			})
		}
	}
}

// A large value is received where it stays: its memory is allocated whole at the beginning.
func TestRoomForAValueIsMadeOnce(t *testing.T) {
	p, err := newProcess(Config{Rank: 0, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	size := uint64(3 * roomFirst) // almost nothing of it is touched
	if size > roomMax {
		t.Skipf("this machine has %d bytes of memory, %d are needed", roomMax, size)
	}
	in := &incoming{envelope: envelope{size: size, plan: Plan{op: opSend}}, source: p.mesh.peers[1], value: make([]byte, eagerMax), filled: eagerMax, brief: true}
	in.makeRoom(0)
	if uint64(len(in.value)) != size {
		t.Errorf("room for %d of %d bytes", len(in.value), size)
	}
	in = &incoming{envelope: envelope{size: roomMax + 1, plan: Plan{op: opSend}}, source: p.mesh.peers[1], value: make([]byte, eagerMax), filled: eagerMax, brief: true}
	in.makeRoom(0)
	if uint64(len(in.value)) > roomFirst {
		t.Errorf("room for %d bytes, though the machine has not as many", len(in.value))
	}
}

// TestValuesThatCannotBeCombinedAtOnceStay: what a message brings may be combined in the memory that it was read to, which the next
// read uses again. If too much was done under the lock, the task combines it later, and by then it has to be elsewhere.
func TestValuesThatCannotBeCombinedAtOnceStay(t *testing.T) {
	defer func(most int) { foldMax = most }(foldMax)
	foldMax = 192 << 10
	for _, kind := range []string{transport.Unix, transport.Shared} {
		t.Run(kind, func(t *testing.T) {
			j := start(t, kind, 5, func(c *Config) { c.Adopt = func(int, int, int) {} })
			ctx := patience(t)
			for i := range 30 {
				x := trial{op: collective.Reduce, by: collective.Binomial, size: 8 * (131072 - i), spans: 1 + i%2*16, seed: uint64(i)}
				want := x.want(5)
				if err := each(j.ps, func(m *Member) error { return x.run(ctx, m, want[m.Rank()]) }); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
