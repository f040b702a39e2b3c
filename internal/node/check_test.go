package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/protocol/collective"
)

// digests finds what a map would that keeps the first digest of a name, whatever the order of lookups.
func TestDigestsAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var d digests
		want, grown := map[uint64]uint64{}, 0
		for n := range rng.IntN(300) {
			name, sum := rng.Uint64N(100), uint64(n)
			grown += d.add(name, sum)
			if _, twice := want[name]; !twice {
				want[name] = sum
			}
			if rng.IntN(20) > 0 {
				continue
			}
			asked := rng.Uint64N(100)
			sum, ok := d.find(asked)
			if w, has := want[asked]; ok != has || sum != w {
				t.Fatalf("%d is %d, %v, want %d, %v", asked, sum, ok, w, has)
			}
		}
	}
}

// A digest takes 16 bytes, and counts as that.
func TestDigestsAreCounted(t *testing.T) {
	var d digests
	grown, n := 0, 100_000
	for i := range n {
		grown += d.add(uint64(i), 1)
	}
	room := 0
	for _, p := range d.pages {
		room += cap(p)
	}
	if grown != room*digestBytes || grown < n*digestBytes || grown > n*digestBytes+digestsMax*digestBytes {
		t.Errorf("%d digests count %d bytes in %d places", n, grown, room)
	}
}

// Messages that differ in plan, sender, number or lane differ in name; those that differ in content differ in sum.
func TestNamesAndSumsDiffer(t *testing.T) {
	plans := []Plan{{op: opSend}, {op: opAllGather, flags: scheduled}, {op: opBroadcast}}
	names := map[uint64]string{}
	for _, plan := range plans {
		for i := range 200 {
			from, seq, lane := i%5, uint64(1+i/25), uint16(i/5%5)
			if plan.op == opBroadcast && (from > 0 || lane > 0) {
				continue // all its messages are the same
			}
			text := fmt.Sprint(plan, from, seq, lane)
			name := nameOf(from, &envelope{seq: seq, round: lane, extra: uint64(lane), plan: plan})
			if other, twice := names[name]; twice {
				t.Errorf("%s and %s have the same name", text, other)
			}
			names[name] = text
		}
	}
	sums := map[uint64]bool{}
	for _, e := range []envelope{{plan: plans[1]}, {plan: plans[1], sign: 1}, {plan: plans[1], extra: absentBlock}} {
		for _, value := range []string{"", "a", "b", "a\x00"} {
			sums[sumOf(&e, []byte(value))] = true
		}
	}
	if len(sums) != 12 {
		t.Errorf("%d sums of 12 messages", len(sums))
	}
}

// Two calls have the same word exactly if they are the same call.
func TestCallWordsAreThoseOfCalls(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	draw := func() Plan {
		return Plan{
			op: opBroadcast + uint8(rng.IntN(2)), tree: uint8(rng.IntN(2)), flags: []planFlags{0, scheduled, auto, auto | decided, auto | unlogged, unlogged}[rng.IntN(6)],
			root: rng.Uint32N(2), treeArg: uint16(rng.IntN(2)),
		}
	}
	same := 0
	for range 20_000 {
		a, b := draw(), draw()
		sa, sb := rng.Uint64N(2), rng.Uint64N(2)
		want := a.same(b) && sa == sb
		if want {
			same++
		}
		if got := callWord(a, sa) == callWord(b, sb); got != want {
			t.Fatalf("%+v, %d and %+v, %d: same %v, want %v", a, sa, b, sb, got, want)
		}
	}
	if same < 100 {
		t.Errorf("only %d of the pairs were the same", same)
	}
}

// If the value of a broadcast arrives again while the operation goes on, the process compares it and
// passes its arrival to the machine.
func TestSurplusIsCompared(t *testing.T) {
	for _, c := range []struct {
		again string
		kind  uint8
		want  bool
	}{{"value", 0, false}, {"other", 0, true}, {"", 0, true}, {"", ackKind, false}} {
		j := start(t, memory, 2, func(c *Config) { c.Check, c.Adopt = true, func(int, int, int) {} })
		p := j.ps[0]
		p.engine.Lock()
		m := p.groups.members[memberKey{scope{group: world}, 0}]
		say := func(text string, kind uint8) *incoming {
			e := envelope{scope: scope{group: world}, seq: 1, from: 1, size: uint64(len(text)), plan: Plan{op: opBroadcast, root: 1}, kind: kind}
			return &incoming{envelope: e, value: []byte(text), source: p.mesh.peers[1], In: whole()}
		}
		m.took(1, say("value", 0))
		if in := m.surplus(1, say(c.again, c.kind)); !in.Complete() || in.kind != c.kind {
			t.Errorf("%q: the machine is told of %+v", c.again, in)
		}
		if got := m.broken != nil && m.broken.Err == ErrDiverged; got != c.want {
			t.Errorf("%q of kind %d: diverged %v, want %v", c.again, c.kind, got, c.want)
		}
		p.engine.Unlock()
	}
}

// BenchmarkCheck measures what comparing costs, in jobs in memory.
func BenchmarkCheck(b *testing.B) {
	for _, op := range []string{"allreduce", "broadcast"} {
		for _, size := range []int{8, 64 << 10} {
			for _, check := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/%dB/check=%v", op, size, check), func(b *testing.B) { benchCheck(b, op, size, check) })
			}
		}
	}
}

// sums adds numbers of 8 bytes.
func sums(dst, left, right []byte) ([]byte, error) {
	if len(dst) != len(left) {
		dst = make([]byte, len(left))
	}
	le := binary.LittleEndian
	for i := 0; i < len(left); i += 8 {
		le.PutUint64(dst[i:], le.Uint64(left[i:])+le.Uint64(right[i:]))
	}
	return dst, nil
}

func benchCheck(b *testing.B, op string, size int, check bool) {
	const n = 4
	j := start(b, memory, n, func(c *Config) {
		c.Check, c.Adopt, c.Buffer = check, func(int, int, int) {}, 1<<40
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for r := range n {
		wg.Go(func() {
			m, value := j.ps[r].World(r), bytes.Repeat([]byte{1}, size)
			for range b.N {
				c := Call{Value: value, Copies: true}
				switch op {
				case "broadcast":
					c.Plan = m.Choose(collective.Broadcast, Choice{Bytes: int64(size), Pieces: true, Decides: r == 0})
				default:
					c.Kind = collective.Kind{Elem: 8, Fold: sums}
					c.Plan = m.Choose(collective.AllReduce, Choice{Bytes: int64(size), Pieces: true})
				}
				if _, err := m.Do(ctx, &c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestWhoHasDiverged: misuse is divergence if one of the two tasks was run again; it is blamed on the
// first that was.
func TestWhoHasDiverged(t *testing.T) {
	for _, c := range []struct {
		err   error
		tasks []int
		again []int
		task  int
		ok    bool
	}{
		{ErrMismatch, []int{3, 5}, nil, 0, false},
		{ErrMismatch, []int{3, 5}, []int{5}, 5, true},
		{ErrMismatch, []int{3, 5}, []int{5, 3}, 3, true},
		{ErrMismatch, []int{3}, []int{5}, 0, false},
		{ErrMismatch, nil, []int{0}, 0, false},
		{ErrLost, []int{3, 5}, []int{5}, 0, false},
	} {
		again := func(task int) bool { return slices.Contains(c.again, task) }
		if task, ok := diverged(&Failure{Err: c.err, Tasks: c.tasks}, again); task != c.task || ok != c.ok {
			t.Errorf("%+v: task %d, %t", c, task, ok)
		}
	}
}
