package coppice_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/test/stage"
)

// Random programs: a thousand operations of all kinds on several groups, with
// values of all kinds and sizes. What each task must get is computed without
// messages, from the program alone.

// programsVariable says how many programs to run instead of the usual few.
const programsVariable = "COPPICE_PROGRAMS"

// deedKind is what a statement does.
type deedKind uint8

const (
	doBarrier deedKind = iota
	doBroadcast
	doScatter
	doGather
	doAllGather
	doAllToAll
	doReduce
	doAllReduce
	doScan
	doExScan
	doReduceScatter
	doReduceFunc
	doAllReduceFunc
	doScanFunc
	doExScanFunc
	doReduceScatterFunc
	doRing // messages to the next task
	doKinds
	doFork
	doSplit
	doGo
	doWait
)

// statement is one statement of a program, the same at all tasks of its group.
type statement struct {
	do     deedKind
	group  int // whose
	made   int // fork, split: the first group that it makes; go, wait: the future
	seed   uint64
	root   int
	large  int // elements more than usual
	op     coppice.Op
	shared bool
	into   bool
	typ    int
	colors []int // split: by rank
	keys   []int
	inner  []statement // go
}

// source makes programs.
type source struct {
	rng    *rand.Rand
	groups [][]int // tasks by rank
	open   []int   // futures that were not waited for
	made   int     // futures
	mega   int     // how many very large values may still come
}

// program returns n statements for p tasks.
func program(seed uint64, p, n int) (all []statement, groups [][]int) {
	s := &source{rng: rand.New(rand.NewPCG(seed, 7)), mega: 3}
	world := make([]int, p)
	for r := range world {
		world[r] = r
	}
	s.groups = [][]int{world}
	for len(all) < n {
		all = append(all, s.next())
	}
	for _, f := range s.open {
		all = append(all, statement{do: doWait, made: f})
	}
	return all, s.groups
}

func (s *source) next() statement {
	g := s.rng.IntN(len(s.groups))
	switch k := s.rng.IntN(100); {
	case k < 1 && len(s.groups) < 12:
		s.groups = append(s.groups, s.groups[g])
		return statement{do: doFork, group: g, made: len(s.groups) - 1}
	case k < 3 && len(s.groups) < 12:
		return s.split(g)
	case k < 7:
		x := statement{do: doGo, group: g, made: s.made}
		for range 1 + s.rng.IntN(3) {
			x.inner = append(x.inner, s.operation(g))
		}
		s.open = append(s.open, s.made)
		s.made++
		return x
	case k < 12 && len(s.open) > 0:
		i := s.rng.IntN(len(s.open))
		x := statement{do: doWait, made: s.open[i]}
		s.open = append(s.open[:i:i], s.open[i+1:]...)
		return x
	}
	return s.operation(g)
}

// split makes a group for every color; a task without one is in none.
func (s *source) split(g int) statement {
	x := statement{do: doSplit, group: g, made: len(s.groups)}
	colors := 1 + s.rng.IntN(3)
	for range s.groups[g] {
		x.colors = append(x.colors, s.rng.IntN(colors+1)-1)
		x.keys = append(x.keys, s.rng.IntN(3))
	}
	for c := range colors {
		var group []int
		for key := range 3 {
			for r, task := range s.groups[g] {
				if x.colors[r] == c && x.keys[r] == key {
					group = append(group, task)
				}
			}
		}
		s.groups = append(s.groups, group) // nobody calls anything in one that is empty
	}
	return x
}

func (s *source) operation(g int) statement {
	x := statement{
		do: deedKind(s.rng.IntN(int(doKinds))), group: g, seed: s.rng.Uint64(), typ: s.rng.IntN(100),
		op: coppice.Op(s.rng.IntN(4)), shared: s.rng.IntN(3) == 0, into: s.rng.IntN(3) == 0,
	}
	if n := len(s.groups[g]); n > 0 {
		x.root = s.rng.IntN(n)
	}
	switch k := s.rng.IntN(1000); {
	case k < 3 && s.mega > 0:
		s.mega--
		x.large = 1<<18 + s.rng.IntN(1<<18)
	case k < 40:
		x.large = 8<<10 + s.rng.IntN(4<<10)
	case k < 120:
		x.large = s.rng.IntN(3000)
	}
	return x
}

// count is how many elements the value of task r for task d has. In reductions
// all have as many.
func (x *statement) count(r, d int) int {
	if x.do >= doReduce && x.do <= doReduceScatter {
		r, d = 0, 0
	}
	h := protocol.Mix(x.seed, uint64(r)<<20|uint64(d))
	if x.large > 0 && h%2 == 0 {
		return x.large
	}
	return int(h % 40)
}

// number is the i-th element of it.
func (x *statement) number(r, d, i int) uint64 {
	return protocol.Mix(x.seed+uint64(i)*0x9e3779b97f4a7c15, uint64(r)<<20|uint64(d))
}

// record is a value that needs more than its memory.
type record struct {
	ID    int32
	Name  string
	Marks []float64
	More  map[string]int
}

// pad has padding, and a bool.
type pad struct {
	A int8
	B int64
	C bool
}

// runStatement carries out an operation on values, of a type that the statement
// says, and compares.
func runStatement(ctx context.Context, t *coppice.Task, x *statement) error {
	switch {
	case x.do == doBarrier:
		return coppice.Barrier(ctx, t)
	case x.do >= doReduce && x.do <= doReduceScatter:
		return runNumbers(ctx, t, x)
	case x.do >= doReduceFunc && x.do <= doReduceScatterFunc:
		return runFuncs(ctx, t, x)
	}
	switch x.typ % 9 {
	case 0:
		return runBlocks(ctx, t, x, func(r, d int) int64 { return int64(x.number(r, d, 0)) })
	case 1:
		return runBlocks(ctx, t, x, func(r, d int) float64 { return math.Float64frombits(x.number(r, d, 0)) })
	case 2:
		return runSlices(ctx, t, x, func(r, d int) []float64 {
			return stage.Fill(x.count(r, d), func(i int) float64 { return math.Float64frombits(x.number(r, d, i)) })
		})
	case 3:
		return runSlices(ctx, t, x, func(r, d int) []byte {
			return stage.Fill(x.count(r, d), func(i int) byte { return byte(x.number(r, d, i)) })
		})
	case 4:
		return runBlocks(ctx, t, x, func(r, d int) string {
			return strings.Repeat(fmt.Sprint(x.number(r, d, 0)), x.count(r, d)/3)
		})
	case 5:
		return runSlices(ctx, t, x, func(r, d int) []pad {
			return stage.Fill(x.count(r, d)/8, func(i int) pad { n := x.number(r, d, i); return pad{int8(n), int64(n), n%2 == 0} })
		})
	case 6:
		return runBlocks(ctx, t, x, func(r, d int) record {
			n := x.number(r, d, 0)
			return record{int32(n), fmt.Sprint(n), stage.Fill(1+x.count(r, d)/8, func(i int) float64 { return float64(x.number(r, d, i)) }), map[string]int{fmt.Sprint(n % 7): int(n)}}
		})
	case 7:
		return runBlocks(ctx, t, x, func(r, d int) [5]int16 {
			return [5]int16(stage.Fill(5, func(i int) int16 { return int16(x.number(r, d, i)) }))
		})
	default:
		return runBlocks(ctx, t, x, func(r, d int) time.Time { return time.Unix(int64(x.number(r, d, 0)>>32), 5).UTC() })
	}
}

// same compares values; floats by their bits, empty slices as what they are.
func same[T any](a, b T) bool {
	switch a := any(a).(type) {
	case float64:
		return math.Float64bits(a) == math.Float64bits(any(b).(float64))
	case []float64:
		return slicesEqual(a, any(b).([]float64), func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
	case []byte:
		return bytes.Equal(a, any(b).([]byte))
	case []pad:
		return slicesEqual(a, any(b).([]pad), func(x, y pad) bool { return x == y })
	case time.Time:
		return a.Equal(any(b).(time.Time))
	}
	return reflect.DeepEqual(a, b)
}

func slicesEqual[E any](a, b []E, eq func(x, y E) bool) bool {
	for i := range min(len(a), len(b)) {
		if !eq(a[i], b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

func expect[T any](got, want T, what string) error {
	if same(got, want) {
		return nil
	}
	return fmt.Errorf("%s: got %.100s, want %.100s", what, fmt.Sprint(got), fmt.Sprint(want))
}

// scribble overwrites memory that is the task's own again: what it passed, and what
// it got, unless that is shared. Nobody may notice.
func scribble[T any](x *statement, values ...T) {
	if x.shared {
		return
	}
	for i := range values {
		switch v := any(values[i]).(type) {
		case []float64:
			clear(v[:cap(v)])
		case []byte:
			clear(v[:cap(v)])
		case []pad:
			clear(v[:cap(v)])
		case []int32:
			clear(v[:cap(v)])
		}
	}
	clear(values)
}

// options are those of the statement, but for Into.
func (x *statement) options() (all []coppice.Option) {
	switch x.do {
	case doAllGather, doAllToAll, doScan, doScanFunc, doExScan, doExScanFunc, doReduceScatter, doReduceScatterFunc: // they have none
	default:
		all = append(all, coppice.Root(x.root))
	}
	if x.shared {
		all = append(all, coppice.Shared())
	}
	return all
}

// runSlices is runBlocks with Into for single values.
func runSlices[E any](ctx context.Context, t *coppice.Task, x *statement, value func(r, d int) []E) error {
	if x.into && (x.do == doBroadcast || x.do == doScatter) {
		return runBlocks(ctx, t, x, value, coppice.Into(make([]E, 20)))
	}
	return runBlocks(ctx, t, x, value)
}

func runBlocks[T any](ctx context.Context, t *coppice.Task, x *statement, value func(r, d int) T, more ...coppice.Option) error {
	self, p := t.Rank(), t.Size()
	opts := append(x.options(), more...)
	row := func(r int) []T { return stage.Fill(p, func(d int) T { return value(r, d) }) }
	all := func(got []T, err error, here bool, want func(r int) T) error {
		if err != nil || !here {
			if err == nil && got != nil {
				return fmt.Errorf("%d values at a task that is not the root", len(got))
			}
			return err
		}
		if len(got) != p {
			return fmt.Errorf("%d values of %d tasks", len(got), p)
		}
		for r := range got {
			if err := expect(got[r], want(r), fmt.Sprint("of task ", r)); err != nil {
				return err
			}
		}
		scribble(x, got...)
		return nil
	}
	if x.into && x.do >= doGather && x.do <= doAllToAll {
		opts = append(opts, coppice.Into(make([]T, p/2, p)))
	}
	switch x.do {
	case doBroadcast:
		v := value(self, self)
		if self == x.root {
			v = value(x.root, 0)
		}
		got, err := coppice.Broadcast(ctx, t, v, opts...)
		if err != nil {
			return err
		}
		defer scribble(x, v, got)
		return expect(got, value(x.root, 0), "broadcast")
	case doScatter:
		var parts []T
		if self == x.root {
			parts = row(self)
		}
		got, err := coppice.Scatter(ctx, t, parts, opts...)
		if err != nil {
			return err
		}
		defer scribble(x, append(parts, got)...)
		return expect(got, value(x.root, self), "scatter")
	case doGather:
		v := value(self, 0)
		got, err := coppice.Gather(ctx, t, v, opts...)
		defer scribble(x, v)
		return all(got, err, self == x.root, func(r int) T { return value(r, 0) })
	case doAllGather:
		v := value(self, 0)
		got, err := coppice.AllGather(ctx, t, v, opts...)
		defer scribble(x, v)
		return all(got, err, true, func(r int) T { return value(r, 0) })
	case doAllToAll:
		parts := row(self)
		got, err := coppice.AllToAll(ctx, t, parts, opts...)
		defer scribble(x, parts...)
		return all(got, err, true, func(r int) T { return value(r, self) })
	default: // a ring of messages
		v := value(self, 0)
		if err := coppice.Send(ctx, t, (self+1)%p, 3, v); err != nil {
			return err
		}
		scribble(&statement{}, v)
		from := (self + p - 1) % p
		got, err := coppice.Recv[T](ctx, t, from, 3)
		if err != nil {
			return err
		}
		return expect(got, value(from, 0), "message")
	}
}

// canonical combines the values of tasks lo … hi−1 as reductions do.
func canonical[T any](lo, hi int, value func(r int) T, f func(a, b T) T) T {
	if hi-lo == 1 {
		return value(lo)
	}
	half := 1
	for 2*half < hi-lo {
		half *= 2
	}
	return f(canonical(lo, lo+half, value, f), canonical(lo+half, hi, value, f))
}

// serial is what a reduction gives a task, if it gives it anything.
func serial[T any](x *statement, self, p int, value func(r int) T, f func(a, b T) T) (want T) {
	switch x.do {
	case doReduce, doReduceFunc:
		if self != x.root {
			return want
		}
	case doScan, doScanFunc:
		return canonical(0, self+1, value, f)
	case doExScan, doExScanFunc:
		if self == 0 {
			return want
		}
		return canonical(0, self, value, f)
	case doReduceScatter, doReduceScatterFunc:
		return canonical(0, p, func(r int) T { return value(partOf(r, self)) }, f)
	}
	return canonical(0, p, value, f)
}

// partOf stands for task r where the value is its part for task d.
func partOf(r, d int) int { return r + (d+1)<<10 }

func runNumbers(ctx context.Context, t *coppice.Task, x *statement) error {
	switch x.typ % 5 {
	case 0:
		return reduceScalar(ctx, t, x, func(r int) int64 { return int64(x.number(r, 0, 0)) })
	case 1:
		return reduceScalar(ctx, t, x, func(r int) float64 { return float64(x.number(r, 0, 0))/1e18 - 9 })
	case 2:
		return reduceSlice(ctx, t, x, func(r, i int) float64 { return float64(x.number(r, 0, i))/1e18 - 9 })
	case 3:
		return reduceSlice(ctx, t, x, func(r, i int) int32 { return int32(x.number(r, 0, i)) })
	default:
		return reduceSlice(ctx, t, x, func(r, i int) uint8 { return uint8(x.number(r, 0, i)) })
	}
}

// real numbers are enough for four operations.
type real interface {
	~int32 | ~int64 | ~uint8 | ~float64
}

func combine[E real](op coppice.Op, a, b E) E {
	switch op {
	case coppice.Sum:
		return a + b
	case coppice.Product:
		return a * b
	case coppice.Min:
		return min(a, b)
	default:
		return max(a, b)
	}
}

func reduceScalar[E interface {
	real
	coppice.Numeric
}](ctx context.Context, t *coppice.Task, x *statement, value func(r int) E) error {
	want := serial(x, t.Rank(), t.Size(), value, func(a, b E) E { return combine(x.op, a, b) })
	got, err := reduceBy(ctx, t, x, value, x.options())
	if err != nil {
		return err
	}
	return expect(got, want, "reduction")
}

// reduceBy calls the reduction that the statement says.
func reduceBy[T coppice.Numeric](ctx context.Context, t *coppice.Task, x *statement, value func(r int) T, opts []coppice.Option) (T, error) {
	v := value(t.Rank())
	defer func() { scribble(x, v) }()
	switch x.do {
	case doExScan:
		return coppice.ExScan(ctx, t, v, x.op, opts...)
	case doReduceScatter:
		parts := stage.Fill(t.Size(), func(d int) T { return value(partOf(t.Rank(), d)) })
		defer scribble(x, parts...)
		return coppice.ReduceScatter(ctx, t, parts, x.op, opts...)
	case doReduce:
		return coppice.Reduce(ctx, t, v, x.op, opts...)
	case doAllReduce:
		return coppice.AllReduce(ctx, t, v, x.op, opts...)
	default:
		return coppice.Scan(ctx, t, v, x.op, opts...)
	}
}

func reduceSlice[E real](ctx context.Context, t *coppice.Task, x *statement, value func(r, i int) E) error {
	n := x.count(0, 0)
	row := func(r int) []E { return stage.Fill(n, func(i int) E { return value(r, i) }) }
	want := serial(x, t.Rank(), t.Size(), row, func(a, b []E) []E {
		return stage.Fill(n, func(i int) E { return combine(x.op, a[i], b[i]) })
	})
	opts := x.options()
	if x.into {
		opts = append(opts, coppice.Into(make([]E, 5, 30)))
	}
	var got []E
	var err error
	switch row := any(row).(type) {
	case func(int) []float64:
		var g []float64
		g, err = reduceBy(ctx, t, x, row, opts)
		got = any(g).([]E)
	case func(int) []int32:
		var g []int32
		g, err = reduceBy(ctx, t, x, row, opts)
		got = any(g).([]E)
	case func(int) []uint8:
		var g []uint8
		g, err = reduceBy(ctx, t, x, row, opts)
		got = any(g).([]E)
	}
	if err != nil {
		return err
	}
	if !slicesEqual(got, want, func(a, b E) bool { return same(a, b) }) {
		return fmt.Errorf("reduction of %d numbers gave %d, or others", len(want), len(got))
	}
	scribble(x, got)
	return nil
}

func runFuncs(ctx context.Context, t *coppice.Task, x *statement) error {
	switch x.typ % 3 {
	case 0: // concatenation tells the order
		return reduceFunc(ctx, t, x, func(r int) string { return fmt.Sprint("<", r, strings.Repeat(".", x.count(r, 0)), ">") },
			func(a, b string) string { return a + b })
	case 1: // this tells the association, too
		return reduceFunc(ctx, t, x, func(r int) float64 { return float64(x.number(r, 0, 0)) },
			func(a, b float64) float64 { return a/3 - b*7 })
	default:
		return reduceFunc(ctx, t, x, func(r int) record {
			return record{ID: int32(r), Name: fmt.Sprint(r), Marks: stage.Fill(1+x.count(r, 0)/8, func(i int) float64 { return float64(i) })}
		}, func(a, b record) record {
			return record{a.ID*31 + b.ID, a.Name + b.Name, append(append([]float64(nil), a.Marks...), b.Marks...), map[string]int{a.Name: len(b.Name)}}
		})
	}
}

func reduceFunc[T any](ctx context.Context, t *coppice.Task, x *statement, value func(r int) T, f func(a, b T) T) (err error) {
	want := serial(x, t.Rank(), t.Size(), value, f)
	var got T
	opts := x.options()
	switch x.do {
	case doReduceFunc:
		got, err = coppice.ReduceFunc(ctx, t, value(t.Rank()), f, opts...)
	case doExScanFunc:
		got, err = coppice.ExScanFunc(ctx, t, value(t.Rank()), f, opts...)
	case doReduceScatterFunc:
		parts := stage.Fill(t.Size(), func(d int) T { return value(partOf(t.Rank(), d)) })
		got, err = coppice.ReduceScatterFunc(ctx, t, parts, f, opts...)
	case doAllReduceFunc:
		got, err = coppice.AllReduceFunc(ctx, t, value(t.Rank()), f, opts...)
	default:
		got, err = coppice.ScanFunc(ctx, t, value(t.Rank()), f, opts...)
	}
	if err != nil {
		return err
	}
	return expect(got, want, "reduction by a function")
}

// interpret is a task's part in a program.
func interpret(ctx context.Context, t *coppice.Task, all []statement, groups [][]int) error {
	mine := make([]*coppice.Task, len(groups))
	mine[0] = t
	futures := map[int]*coppice.Future[int]{}
	for i := range all {
		if err := func() error {
			x := &all[i]
			if x.do == doWait {
				if f := futures[x.made]; f != nil {
					_, err := f.Wait(ctx)
					return err
				}
				return nil
			}
			g := mine[x.group]
			if g == nil {
				return nil
			}
			switch x.do {
			case doFork:
				mine[x.made] = g.Fork()
			case doSplit:
				color := x.colors[g.Rank()]
				s, err := g.Split(ctx, color, x.keys[g.Rank()])
				if err != nil || s == nil {
					return err
				}
				want := groups[x.made+color]
				if s.Size() != len(want) || want[s.Rank()] != t.Rank() {
					return fmt.Errorf("rank %d of %d in the group %v", s.Rank(), s.Size(), want)
				}
				mine[x.made+color] = s
			case doGo:
				futures[x.made] = coppice.Go(g, func(t *coppice.Task) (int, error) {
					for k := range x.inner {
						if err := runStatement(ctx, t, &x.inner[k]); err != nil {
							return 0, fmt.Errorf("in a future, %d: %w", k, err)
						}
					}
					return 0, nil
				})
			default:
				return runStatement(ctx, g, x)
			}
			return nil
		}(); err != nil {
			return fmt.Errorf("statement %d, %+v: %w", i, all[i], err)
		}
	}
	return nil
}

// TestRandomPrograms runs programs in memory and on sockets.
func TestRandomPrograms(t *testing.T) {
	const length = 1000
	for i := range stage.Sampled(programsVariable, stage.Short(5, 2)) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		p := 2 + rng.IntN(8)
		all, groups := program(seed, p, length)
		for _, v := range venues(p, rng) {
			ctx, cancel := context.WithTimeoutCause(context.Background(), 2*time.Minute, fmt.Errorf("the test hangs"))
			began := time.Now()
			err := v.run(t, ctx, func(ctx context.Context, task *coppice.Task) error {
				return interpret(ctx, task, all, groups)
			})
			cancel()
			t.Logf("program %d, seed %d: %d tasks, %d groups, %v: %v", i, seed, p, len(groups), v, time.Since(began).Round(time.Millisecond))
			if err != nil {
				t.Fatalf("seed %d, %d tasks, %v: %.3000s", seed, p, v, err.Error())
			}
		}
	}
}
