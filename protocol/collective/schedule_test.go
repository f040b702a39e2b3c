package collective

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// mixed is an operation on words that is neither commutative nor associative: who
// combines in another order or association gets something else.
func mixed(dst, left, right []byte) ([]byte, error) {
	if len(left) != len(right) {
		return nil, ErrSize
	}
	if len(dst) != len(left) {
		dst = make([]byte, len(left))
	}
	for i := 0; i+8 <= len(left); i += 8 {
		l, r := binary.LittleEndian.Uint64(left[i:]), binary.LittleEndian.Uint64(right[i:])
		binary.LittleEndian.PutUint64(dst[i:], protocol.Mix(3*l+1, r))
	}
	return dst, nil
}

// added is addition, for those that combine in any order.
func added(dst, left, right []byte) ([]byte, error) {
	if len(dst) != len(left) {
		dst = make([]byte, len(left))
	}
	for i := 0; i+8 <= len(left); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(left[i:])+binary.LittleEndian.Uint64(right[i:]))
	}
	return dst, nil
}

// canonical combines values in the canonical association.
func canonical(values [][]byte, fold func(dst, l, r []byte) ([]byte, error)) []byte {
	if len(values) == 1 {
		return values[0]
	}
	half := 1
	for 2*half < len(values) {
		half *= 2
	}
	v, err := fold(nil, canonical(values[:half], fold), canonical(values[half:], fold))
	if err != nil {
		panic(err)
	}
	return v
}

// input is what task r gives to task d.
func input(r, d Rank, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(protocol.Mix(uint64(r)<<32|uint64(d), uint64(i)))
	}
	return b
}

// want is the result of task r, and what the tasks give; the lengths of blocks
// vary around n.
func blockLen(r, d Rank, n int) int { return int(protocol.Mix(uint64(r), uint64(d)) % uint64(n+1)) }

type task struct {
	state   StepState
	program Program
	store   Store
	given   [][]byte // copies of what was lent
	lent    [][]byte
}

func (k *task) lend(b []byte) []byte {
	k.lent, k.given = append(k.lent, b), append(k.given, bytes.Clone(b))
	return b
}

// result of one task, all blocks or the vector.
func expected(spec Spec, n int, self Rank) (want [][]byte) {
	p := Rank(spec.P)
	fold := mixed
	if spec.AnyOrder {
		fold = added
	}
	var values [][]byte
	for r := range p {
		values = append(values, input(r, 0, n))
	}
	switch spec.Op {
	case Broadcast:
		return [][]byte{values[spec.Root]}
	case Reduce:
		if self != spec.Root {
			return nil
		}
		return [][]byte{canonical(values, fold)}
	case AllReduce:
		return [][]byte{canonical(values, fold)}
	case Scan:
		return [][]byte{canonical(values[:self+1], fold)}
	case Scatter:
		return [][]byte{input(spec.Root, self, blockLen(spec.Root, self, n))}
	case Gather:
		if self != spec.Root {
			return nil
		}
		fallthrough
	case AllGather:
		for r := range p {
			want = append(want, input(r, 0, blockLen(r, 0, n)))
		}
	case AllToAll:
		for r := range p {
			want = append(want, input(r, self, blockLen(r, self, n)))
		}
	}
	return want
}

func (k *task) begin(spec Spec, n int, self Rank) error {
	k.state.begun = true
	g := &k.program
	switch {
	case len(g.In) == 0:
	case g.Segments > 0:
		k.store.SetVector(k.lend(input(self, 0, n)))
	default:
		var blocks [][]byte
		for i := range g.In {
			d := Rank(i)
			if len(g.In) == 1 {
				d = 0
			}
			if spec.Op == Scatter {
				d = Rank(i)
			}
			blocks = append(blocks, k.lend(input(self, d, blockLen(self, d, n))))
		}
		return k.store.SetBlocks(blocks...)
	}
	return nil
}

// run carries out a schedule, one action of a random task after the other.
func run(spec Spec, n int, seed uint64) error {
	c, err := New(spec)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	kind := Kind{Elem: 8, Fold: mixed}
	if spec.AnyOrder {
		kind.Fold = added
	}
	tasks := make([]task, spec.P)
	delivered := make([]int, spec.P)
	for r := range tasks {
		k := &tasks[r]
		k.program = c.Program(Rank(r))
		k.state.Reset(k.program.Steps)
		k.store.Reset(&k.program, kind)
		if spec.Op == Broadcast {
			k.store.SetSize(n)
		}
		if rng.IntN(2) == 0 && n > 0 {
			k.store.SetRoom(make([]byte, 0, n))
		}
	}
	begun := 0
	flight := map[[2]Rank][]StepMessage{}
	values := map[[2]Rank][][]byte{}
	for idle := 0; idle < 20*spec.P*spec.P+1000; {
		r := Rank(rng.IntN(spec.P))
		k := &tasks[r]
		if !k.state.begun && rng.IntN(3) == 0 {
			if err := k.begin(spec, n, r); err != nil {
				return err
			}
			begun++
		}
		from := Rank(rng.IntN(spec.P))
		if key := [2]Rank{from, r}; len(flight[key]) > 0 && (k.state.begun || c.Unasked) && rng.IntN(2) == 0 {
			m, v := flight[key][0], values[key][0]
			flight[key], values[key] = flight[key][1:], values[key][1:]
			i := k.state.Match(from, m.Lane)
			if i < 0 {
				return fmt.Errorf("task %d does not wait for lane %d of %d", r, m.Lane, from)
			}
			st := &k.program.Steps[i]
			lent := true
			if room := k.store.Room(st, len(v)); room != nil {
				copy(room, v)
				v, lent = room, false
			} else if rng.IntN(2) == 0 {
				v, lent = bytes.Clone(v), false
			}
			if err := k.store.Put(st, v, lent); err != nil {
				return fmt.Errorf("task %d: %w", r, err)
			}
			c.Receive(&k.state, 0, from, m)
			idle = 0
		}
		switch a := c.Next(&k.state, 0); a.Kind {
		case protocol.Send:
			v, _ := k.store.Take(&k.program.Steps[a.Msg.Step], nil)
			key := [2]Rank{r, a.To}
			flight[key], values[key] = append(flight[key], a.Msg), append(values[key], k.lend(v))
			idle = 0
		case protocol.Work:
			if err := k.store.Fold(&k.program.Steps[a.Msg.Step]); err != nil {
				return err
			}
			c.Notify(&k.state, 0, protocol.Notice{Kind: protocol.WorkDone})
			idle = 0
		case protocol.Deliver:
			delivered[r]++
			idle = 0
		default:
			idle++
		}
	}
	for r := range tasks {
		k := &tasks[r]
		if delivered[r] != 1 {
			return fmt.Errorf("task %d delivered %d times, at step %d of %d", r, delivered[r], k.state.at, len(k.program.Steps))
		}
		want := expected(spec, n, Rank(r))
		var got [][]byte
		if k.program.Out != nil && k.program.Segments > 0 {
			v, _ := k.store.Vector()
			got = [][]byte{v}
		} else {
			got = k.store.Blocks(nil)
		}
		if len(got) != len(want) {
			return fmt.Errorf("task %d: %d values, want %d", r, len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				return fmt.Errorf("task %d: value %d is %x, want %x", r, i, got[i], want[i])
			}
		}
	}
	for key, f := range flight {
		if len(f) > 0 {
			return fmt.Errorf("from %d to %d: %d messages that nobody took", key[0], key[1], len(f))
		}
	}
	return nil
}

func TestSchedulesEqualTheSerialReference(t *testing.T) {
	runs := 0
	for op := Broadcast; op <= Scan; op++ {
		for _, p := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17} {
			for _, any := range []bool{false, true} {
				for _, a := range Algorithms(op, p, any) {
					for i, n := range []int{0, 8, 24, 200, 8 * 33} {
						for _, spans := range []int{1, 3} {
							if spans > 1 && !Spans(op, a) {
								continue
							}
							spec := Spec{Op: op, Algorithm: a, P: p, Root: Rank((7*p + i) % p), Spans: spans, AnyOrder: any}
							if err := run(spec, n, uint64(n)); err != nil {
								t.Fatalf("%+v, %d bytes: %v", spec, n, err)
							}
							runs++
						}
					}
				}
			}
		}
	}
	t.Log(runs, "runs")
}
