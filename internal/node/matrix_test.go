package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// The matrix runs every collective by every algorithm, over every transport, among every number of
// tasks, with values of all sizes, from and to every root, with any distribution of the tasks to
// processes. Results equal those of a serial reference, bit for bit.

// matrixVariable is the environment variable that asks for the full matrix, which takes hours.
const matrixVariable = "COPPICE_MATRIX"

// matrixSizes are bytes per task. Values beyond 64 KiB need a grant.
var matrixSizes = []int{0, 1, 8, 2<<10 + 1, 3001, eagerMax, eagerMax + 8, 8 << 20}

var matrixOps = []collective.Op{
	collective.Broadcast, collective.Scatter, collective.Gather, collective.AllGather,
	collective.AllToAll, collective.Reduce, collective.AllReduce, collective.Scan,
	collective.ExScan, collective.ReduceScatter,
}

// trial is one operation of the matrix.
type trial struct {
	op       collective.Op
	by       collective.Algorithm
	anyOrder bool
	spans    int
	root     int
	size     int
	seed     uint64
	works    bool // the user's code combines, as in package coppice: values may differ in length
	room     bool // results are received where the task says
	copies   bool // and copied at once
}

func (x trial) String() string {
	return fmt.Sprintf("%v by %v, any order %v, %d pieces, root %d, %d bytes, seed %d, works %v, room %v", x.op, x.by, x.anyOrder, x.spans, x.root, x.size, x.seed, x.works, x.room)
}

func (x trial) plan() Plan {
	p := Plan{op: opOf(x.op), tree: uint8(x.by), flags: scheduled, root: uint32(x.root)}
	if x.spans > 1 {
		p.treeArg = uint16(x.spans)
	}
	if x.anyOrder {
		p.flags |= anyOrder
	}
	return p
}

func (x trial) vector() bool {
	return x.op == collective.Broadcast || x.op >= collective.Reduce && x.op != collective.ReduceScatter
}

// whole reports whether it combines whole values.
func (x trial) whole() bool {
	return x.op >= collective.Reduce && x.spans == 1 && x.by != collective.Ring && x.by != collective.Rabenseifner
}

// elem returns the size of a vector's elements.
func (x trial) elem() int {
	if x.size%8 == 0 {
		return 8
	}
	return 1
}

// input returns what task r gives to task d. Blocks differ in length, and some are absent; vectors do
// not.
func (x trial) input(r, d int) []byte {
	if x.vector() {
		return message(x.size, x.seed<<16|uint64(r))
	}
	if x.op == collective.ReduceScatter { // what a task gets has one length
		size := x.size
		if d%2 == 1 {
			size = x.size / 16 * 8
		}
		return append([]byte{}, message(size, x.seed<<32|uint64(r)<<16|uint64(d))...) // empty, not absent
	}
	h := protocol.Mix(x.seed<<32|uint64(r), uint64(d))
	switch h % 8 {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2, 3, 4:
		return message(x.size, h)
	}
	return message(int(h>>8%uint64(x.size+1)), h)
}

// combine is neither commutative nor associative, unless it must be.
func (x trial) combine(dst, left, right []byte) ([]byte, error) {
	if len(left) != len(right) {
		return nil, collective.ErrSize
	}
	if len(dst) != len(left) || dst == nil {
		dst = make([]byte, len(left))
	}
	if x.elem() == 1 {
		for i := range left {
			l, r := left[i], right[i]
			if !x.anyOrder {
				l = 3*l ^ r>>3
			}
			dst[i] = l + r
		}
		return dst, nil
	}
	le := binary.LittleEndian
	for i := 0; i < len(left); i += 8 {
		l, r := le.Uint64(left[i:]), le.Uint64(right[i:])
		if !x.anyOrder {
			l = 3*l ^ r>>7
		}
		le.PutUint64(dst[i:], l+r)
	}
	return dst, nil
}

// canonical combines what tasks lo … hi−1 give to task d in the canonical association.
func (x trial) canonical(lo, hi, d int) []byte {
	if hi-lo == 1 {
		return x.input(lo, d)
	}
	half := 1
	for 2*half < hi-lo {
		half *= 2
	}
	v, err := x.combine(nil, x.canonical(lo, lo+half, d), x.canonical(lo+half, hi, d))
	if err != nil {
		panic(err)
	}
	return v
}

// call returns the call of a task.
func (x trial) call(self, p int) Call {
	c := Call{Plan: x.plan(), Sign: x.seed, Works: x.works, Copies: x.copies}
	if x.op >= collective.Reduce {
		c.Kind = collective.Kind{Elem: x.elem(), Fold: x.combine, Loose: x.works}
	}
	switch x.op {
	case collective.Broadcast:
		if self == x.root {
			c.Value = x.input(self, 0)
		} else if x.room {
			c.Room = make([]byte, x.size)
		}
	case collective.Scatter, collective.AllToAll, collective.ReduceScatter:
		if x.op != collective.Scatter || self == x.root {
			for d := range p {
				c.Values = append(c.Values, x.input(self, d))
			}
		}
	case collective.Gather, collective.AllGather:
		c.Values = [][]byte{x.input(self, 0)}
	default:
		c.Value = x.input(self, 0)
		if x.room {
			c.Room = make([]byte, x.size)
		}
	}
	if x.room && !x.vector() {
		for range p {
			c.Rooms = append(c.Rooms, make([]byte, x.size))
		}
	}
	return c
}

// want returns what each task gets, computed without messages: a vector has one value.
func (x trial) want(p int) (all [][][]byte) {
	var total [][]byte
	switch x.op {
	case collective.Reduce, collective.AllReduce:
		total = [][]byte{x.canonical(0, p, 0)}
	case collective.Broadcast:
		total = [][]byte{x.input(x.root, 0)}
	case collective.Gather, collective.AllGather:
		for r := range p {
			total = append(total, x.input(r, 0))
		}
	}
	for self := range p {
		mine := total
		switch x.op {
		case collective.Scan:
			mine = [][]byte{x.canonical(0, self+1, 0)}
		case collective.ExScan:
			if self > 0 {
				mine = [][]byte{x.canonical(0, self, 0)}
			}
		case collective.ReduceScatter:
			mine = [][]byte{x.canonical(0, p, self)}
		case collective.Scatter:
			mine = [][]byte{x.input(x.root, self)}
		case collective.AllToAll:
			for r := range p {
				mine = append(mine, x.input(r, self))
			}
		case collective.Reduce, collective.Gather:
			if self != x.root {
				mine = nil
			}
		}
		all = append(all, mine)
	}
	return all
}

// run takes part in the operation and compares the result.
func (x trial) run(ctx context.Context, m *Member, want [][]byte) error {
	c := x.call(m.Rank(), m.Size())
	r, err := m.Do(ctx, &c)
	if err != nil {
		return fmt.Errorf("%v: %w", x, err)
	}
	got := r.Values
	if x.vector() && want != nil {
		got = [][]byte{r.Value}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%v: %d values instead of %d", x, len(got), len(want))
	}
	for i := range want {
		if absent := want[i] == nil && !x.vector(); !bytes.Equal(got[i], want[i]) || absent != (got[i] == nil && !x.vector()) {
			return fmt.Errorf("%v: value %d has %d bytes (absent: %v), want %d (%v), or others", x, i, len(got[i]), got[i] == nil, len(want[i]), absent)
		}
	}
	return nil
}

// hostsOf says on how many hosts p tasks are, and how many are on each.
func hostsOf(p int) []int {
	if p%2 == 0 {
		return []int{p / 2, p / 2}
	}
	return []int{1, p / 2, p - p/2 - 1}[:min(p, 3)]
}

// beginnings returns the first task of each host.
func beginnings(hosts []int) (first []protocol.Rank) {
	at := 0
	for _, n := range hosts {
		first = append(first, protocol.Rank(at))
		at += n
	}
	return first
}

// trials lists all trials of an operation among p tasks, without size and root.
func trials(op collective.Op, p int) (all []trial) {
	for _, anyOrder := range []bool{false, true} {
		if anyOrder && op < collective.Reduce {
			continue
		}
		for _, a := range collective.Algorithms(collective.Spec{Op: op, P: p, AnyOrder: anyOrder, Hosts: beginnings(hostsOf(p))}) {
			for _, spans := range []int{1, 3} {
				if spans == 1 || collective.Spans(op, a) {
					all = append(all, trial{op: op, by: a, anyOrder: anyOrder, spans: spans})
				}
			}
		}
	}
	return all
}

// rooted reports whether an operation has a root.
func rooted(op collective.Op) bool {
	return op < collective.AllGather || op == collective.Reduce
}

// blocksMax bounds the bytes of all blocks together: all tasks are in one process.
const blocksMax = 1 << 29

// matrixOf lists trials among p tasks: with every root and size, or with one of each drawn at random.
func matrixOf(p int, rng *rand.Rand, full bool) (all []trial) {
	for _, op := range matrixOps {
		for _, x := range trials(op, p) {
			roots, sizes := []int{rng.IntN(p)}, []int{matrixSizes[rng.IntN(len(matrixSizes)-1)]}
			if full {
				roots, sizes = roots[:0], matrixSizes
				for r := range p {
					roots = append(roots, r)
				}
			}
			for _, root := range roots {
				for _, size := range sizes {
					x.root, x.size, x.seed = 0, size, rng.Uint64()>>32
					if rooted(op) {
						x.root = root
					}
					x.works, x.room = rng.IntN(3) == 0 && x.whole(), rng.IntN(2) == 0
					if !x.vector() && size*p*p > blocksMax {
						x.size = blocksMax / (p * p) &^ 7
					}
					all = append(all, x)
				}
				if !rooted(op) {
					break
				}
			}
		}
	}
	return all
}

// ownership draws the number of processes and the owner of each task.
func ownership(p, most int, rng *rand.Rand) (n int, owner []int32) {
	if p <= most && rng.IntN(3) == 0 {
		return p, nil
	}
	n = 1 + rng.IntN(min(p, 8))
	for range p {
		owner = append(owner, int32(rng.IntN(n)))
	}
	return n, owner
}

// TestCollectivesEqualTheSerialReference is the matrix.
func TestCollectivesEqualTheSerialReference(t *testing.T) {
	full := os.Getenv(matrixVariable) != ""
	rng := dice(t)
	count := 0
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			leavesNothing(t)
			began := time.Now()
			here := 0
			for p := 1; p <= 33; p++ {
				if p == 18 {
					p = 33
				}
				if !extent.Full() && p > 5 && p != 8 && p != 13 {
					continue
				}
				if p > 3 && !full && rng.IntN(3) > 0 { // each run draws others
					continue
				}
				jobs, most := 1, 33
				if kind == transport.TLS { // its handshakes cost most of the time
					most = 8
				}
				if full {
					jobs, most = 3, 33
				}
				all := matrixOf(p, rng, full)
				for range jobs {
					n, owner := ownership(p, most, rng)
					matrix(t, kind, n, owner, p, all)
					here += len(all)
				}
				if full {
					t.Logf("%s, %d tasks: %d operations in %v", kind, p, here, time.Since(began).Round(time.Second))
					fmt.Fprintf(os.Stderr, "%s, %d tasks: %d operations in %v\n", kind, p, here, time.Since(began).Round(time.Second))
				}
			}
			t.Logf("%d operations in %v", here, time.Since(began).Round(time.Millisecond))
			count += here
		})
	}
	t.Logf("%d operations", count)
}

// matrix runs operations one after the other in one job.
func matrix(t *testing.T, kind string, n int, owner []int32, p int, all []trial) {
	t.Helper()
	j := start(t, kind, n, func(c *Config) { c.Tasks, c.Owner, c.Hosts = p, owner, hostsOf(p) })
	defer func() {
		j.close()
		j.ps, j.local = nil, nil // the test keeps the job to its end
	}()
	for i := 0; i < len(all); {
		// Several trials at once, as far as memory allows: tasks are in different ones.
		end, cost := i, 0
		var wants [][][][]byte
		for end < len(all) && end-i < 8 && cost < 1<<25 {
			wants = append(wants, all[end].want(p))
			cost += all[end].size * p * p
			end++
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), hangTime, errors.New("the test hangs"))
		err := each(j.ps, func(m *Member) error {
			for k, x := range all[i:end] {
				if err := x.run(ctx, m, wants[k][m.Rank()]); err != nil {
					return err
				}
			}
			return nil
		})
		cancel()
		if err != nil {
			t.Fatalf("%s, %d processes, owners %v: %v", kind, n, owner, err)
		}
		i = end
	}
	for _, q := range j.ps {
		leftovers(t, q)
	}
}

// Large values, sampled: the part of the matrix's large half that CI has time for.
func TestLargeCollectives(t *testing.T) {
	if testing.Short() {
		t.Skip("large values take seconds; runs without -short")
	}
	rng := dice(t)
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			p := 2 + rng.IntN(6)
			var all []trial
			for _, op := range matrixOps {
				some := trials(op, p)
				x := some[rng.IntN(len(some))]
				x.size, x.seed, x.room = short(8<<20, 2<<20), rng.Uint64()>>32, rng.IntN(2) == 0
				if rooted(op) {
					x.root = rng.IntN(p)
				}
				if op == collective.AllToAll || op == collective.ReduceScatter {
					x.size = short(1<<20, 1<<18)
				}
				all = append(all, x)
			}
			n, owner := ownership(p, 8, rng)
			matrix(t, kind, n, owner, p, all)
		})
	}
}

// A process owns the tasks that the map of owners gives it.
func TestOwners(t *testing.T) {
	for _, c := range []struct {
		n, tasks int
		owner    []int32
	}{
		{2, 0, []int32{1, 1, 0}},
		{2, 3, []int32{1, 1, 1}},
		{4, 0, []int32{3}},
	} {
		p, err := newProcess(Config{Size: c.n, Tasks: c.tasks, Owner: c.owner, Rank: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Tasks()) != len(slices.DeleteFunc(slices.Clone(c.owner), func(r int32) bool { return r != 1 })) {
			t.Errorf("%+v: owns %v", c, p.Tasks())
		}
	}
}

// A group knows on which hosts its tasks began.
func TestHostsOfGroups(t *testing.T) {
	for _, c := range []struct {
		hosts []int
		tasks int
		group []int32
		want  []protocol.Rank
	}{
		{nil, 4, nil, nil},
		{[]int{4}, 4, nil, nil},
		{[]int{2, 2}, 4, nil, []protocol.Rank{0, 2}},
		{[]int{1, 3}, 8, nil, []protocol.Rank{0, 2}},
		{[]int{2, 2, 2, 2}, 12, nil, []protocol.Rank{0, 3, 6, 9}},
		{[]int{2, 2}, 4, []int32{1, 2, 3}, []protocol.Rank{0, 1}},
		{[]int{2, 2}, 4, []int32{3, 0, 2}, []protocol.Rank{0, 1, 2}},
		{[]int{2, 2}, 4, []int32{3, 2}, []protocol.Rank{0}},
	} {
		p, err := newProcess(Config{Size: 4, Tasks: c.tasks, Hosts: c.hosts})
		if err != nil {
			t.Fatal(err)
		}
		m := p.World(0)
		if c.group != nil {
			m = p.enterGroup(scope{group: 7}, int(c.group[0]), c.group)
		}
		if !slices.Equal(m.hosts, c.want) {
			t.Errorf("%+v: hosts begin with %v", c, m.hosts)
		}
	}
}
