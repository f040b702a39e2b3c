package coppice_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/stage"
)

// kelvin, kelvins and codes are named types; secret sends itself by its methods.
type (
	kelvin  float64
	kelvins []kelvin
	codes   []int32
	secret  struct{ n uint64 }
)

func (s *secret) MarshalBinary() ([]byte, error) {
	return binary.BigEndian.AppendUint64([]byte("secret"), s.n), nil
}

func (s *secret) UnmarshalBinary(b []byte) error {
	if len(b) != 14 || string(b[:6]) != "secret" {
		return fmt.Errorf("no secret: %q", b)
	}
	s.n = binary.BigEndian.Uint64(b[6:])
	return nil
}

// typed are operations on values of one type.
var typed = map[string]func(ctx context.Context, t *coppice.Task, x *statement) error{
	"int":     of(func(x *statement, r, d int) int { return int(x.number(r, d, 0)) }),
	"int8":    of(func(x *statement, r, d int) int8 { return int8(x.number(r, d, 0)) }),
	"bool":    of(func(x *statement, r, d int) bool { return x.number(r, d, 0)%2 == 0 }),
	"complex": of(func(x *statement, r, d int) complex128 { return complex(float64(r), float64(d)) }),
	"kelvin":  of(func(x *statement, r, d int) kelvin { return kelvin(x.number(r, d, 0)) }),
	"kelvins": of(func(x *statement, r, d int) kelvins {
		return stage.Fill(1+x.count(r, d), func(i int) kelvin { return kelvin(x.number(r, d, i)) })
	}),
	"nothing": of(func(*statement, int, int) struct{} { return struct{}{} }),
	"padded":  of(func(x *statement, r, d int) pad { return pad{int8(r), int64(d), r%2 == 0} }),
	"string":  of(func(x *statement, r, d int) string { return strings.Repeat("ä", x.count(r, d)) }),
	"bools": of(func(x *statement, r, d int) []bool {
		return stage.Fill(1+x.count(r, d), func(i int) bool { return x.number(r, d, i)%3 == 0 })
	}),
	"lists": of(func(x *statement, r, d int) [][]int {
		return stage.Fill(1+x.count(r, d)%5, func(i int) []int { return stage.Fill(1+i, func(k int) int { return r*k + d }) })
	}),
	"strings": of(func(x *statement, r, d int) []string {
		return stage.Fill(1+x.count(r, d), func(i int) string { return fmt.Sprint(r, d, i) })
	}),
	"map": of(func(x *statement, r, d int) map[string]int { return map[string]int{"r": r, "d": d} }),
	"record": of(func(x *statement, r, d int) record {
		return record{ID: int32(r), Name: fmt.Sprint(d), Marks: []float64{1}}
	}),
	"pointer": of(func(x *statement, r, d int) *int { v := r*100 + d; return &v }),
	"secret":  of(func(x *statement, r, d int) secret { return secret{x.number(r, d, 0)} }),
	"secrets": of(func(x *statement, r, d int) []secret { return []secret{{1}, {x.number(r, d, 0)}} }),
	"time":    of(func(x *statement, r, d int) time.Time { return time.Unix(int64(r), int64(d)).UTC() }),
}

func of[T any](value func(x *statement, r, d int) T) func(context.Context, *coppice.Task, *statement) error {
	return func(ctx context.Context, t *coppice.Task, x *statement) error {
		return runBlocks(ctx, t, x, func(r, d int) T { return value(x, r, d) })
	}
}

// TestCollectivesOfAllTypes: what is received is what was sent, whatever the type
// and the options.
func TestCollectivesOfAllTypes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, p := range []int{1, 3, 6} { // below and above where small values go another way
		for _, v := range venues(p, rng) {
			err := v.run(t, stage.Patience(t), func(ctx context.Context, task *coppice.Task) error {
				for _, name := range slices.Sorted(maps.Keys(typed)) {
					for do := doBroadcast; do <= doAllToAll; do++ {
						for how := range 4 {
							if testing.Short() && how != (len(name)+int(do))%4 { // the race detector, which goes with -short, is slow
								continue
							}
							x := &statement{do: do, seed: uint64(how + len(name)), root: (how + int(do)) % p, shared: how&1 == 1, into: how&2 == 2}
							if how == 3 {
								x.large = 6000
							}
							if err := typed[name](ctx, task, x); err != nil {
								return fmt.Errorf("%s: %+v: %w", name, x, err)
							}
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%v: %v", v, err)
			}
		}
	}
}

// TestManyTasksGatherAndScatter: among many tasks small blocks go along a tree.
func TestManyTasksGatherAndScatter(t *testing.T) {
	const p, root = 67, 5
	slice := func(r int) []byte { return bytes.Repeat([]byte{byte(r)}, r*100) }
	err := coppice.Local(stage.Patience(t), p, func(ctx context.Context, task *coppice.Task) error {
		numbers, err1 := coppice.Gather(ctx, task, task.Rank(), coppice.Root(root))
		lists, err2 := coppice.Gather(ctx, task, slice(task.Rank()), coppice.Root(root))
		number, err3 := coppice.Scatter(ctx, task, stage.Fill(p, func(r int) int { return -r }), coppice.Root(root))
		part, err4 := coppice.Scatter(ctx, task, stage.Fill(p, slice), coppice.Root(root))
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return err
		}
		for r := range numbers {
			if numbers[r] != r || !bytes.Equal(lists[r], slice(r)) {
				return fmt.Errorf("gather of task %d: %d, %v", r, numbers[r], lists[r])
			}
		}
		if (len(numbers) == p) != (task.Rank() == root) || number != -task.Rank() || !bytes.Equal(part, slice(task.Rank())) {
			return fmt.Errorf("%d gathered; scatter: %d, %v", len(numbers), number, part)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEmptyValues: nil, empty and missing values are values.
func TestEmptyValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, p := range []int{1, 2, 7} {
		for _, v := range venues(p, rng) {
			err := v.run(t, stage.Patience(t), func(ctx context.Context, task *coppice.Task) error {
				for _, opts := range [][]coppice.Option{nil, {coppice.Shared()}} {
					for _, e := range [][]int32{nil, {}} {
						parts := stage.Fill(p, func(int) []int32 { return e })
						a, err1 := coppice.AllGather(ctx, task, e, opts...)
						b, err2 := coppice.AllToAll(ctx, task, parts, opts...)
						c, err3 := coppice.Scatter(ctx, task, parts, opts...)
						d, err4 := coppice.AllReduce(ctx, task, e, coppice.Sum, opts...)
						f, err5 := coppice.Broadcast(ctx, task, e, opts...)
						g, err6 := coppice.Gather(ctx, task, e, opts...)
						h, err7 := coppice.Scan(ctx, task, e, coppice.Max, opts...)
						i, err8 := coppice.AllReduceFunc(ctx, task, "", func(a, b string) string { return a + b }, opts...)
						j, err9 := coppice.ExScan(ctx, task, e, coppice.Min, opts...)
						k, err10 := coppice.ReduceScatter(ctx, task, parts, coppice.Sum, opts...)
						if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10); err != nil {
							return err
						}
						if task.Rank() != 0 {
							g = make([][]int32, p)
						}
						if len(c)+len(d)+len(f)+len(h)+len(i)+len(j)+len(k) > 0 || len(a) != p || len(b) != p || len(g) != p {
							return fmt.Errorf("%v %v %v %v %v %v %v %q %v %v", a, b, c, d, f, g, h, i, j, k)
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%v: %v", v, err)
			}
		}
	}
}

// TestBadCalls: calls that make no sense say so before anything is sent: the
// group goes on as if they had not been.
func TestBadCalls(t *testing.T) {
	const p = 5
	calls := map[string]deed{
		"0 parts; allowed: one for each of 5": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllToAll[int](ctx, t, nil)
			return err
		},
		"6 parts; allowed: one for each of 5": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllToAll(ctx, t, make([]int, 6))
			return err
		},
		"reducescatter: 4 parts; allowed: one for each of 5": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.ReduceScatter(ctx, t, make([]int, 4), coppice.Sum)
			return err
		},
		"reducescatter: 6 parts; allowed: one for each of 5": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.ReduceScatterFunc(ctx, t, make([]string, 6), func(a, b string) string { return a })
			return err
		},
		"reducescatter: xor of float64; allowed: sum, product, min, max": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.ReduceScatter(ctx, t, make([]float64, 5), coppice.Xor)
			return err
		},
		"reducescatter: Into has a []int, the operation a int; allowed: the same": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.ReduceScatter(ctx, t, make([]int, 5), coppice.Sum, coppice.Into([]int{1}))
			return err
		},
		"exscan: and of float64; allowed: sum, product, min, max": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.ExScan(ctx, t, 1.5, coppice.And)
			return err
		},
		"scatter: root 5; allowed: 0 to 4": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Scatter(ctx, t, make([]int, 5), coppice.Root(5))
			return err
		},
		"gather: root -1; allowed: 0 to 4": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Gather(ctx, t, 1, coppice.Root(-1))
			return err
		},
		"reduce: root 9; allowed: 0 to 4": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.ReduceFunc(ctx, t, "", func(a, b string) string { return a }, coppice.Root(9))
			return err
		},
		"reduce: root 7; allowed: 0 to 4": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Reduce(ctx, t, 1, coppice.Sum, coppice.Root(7))
			return err
		},
		"xor of float64; allowed: sum, product, min, max": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllReduce(ctx, t, 1.5, coppice.Xor)
			return err
		},
		"min of complex64; allowed: sum, product": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Scan(ctx, t, []complex64{1}, coppice.Min)
			return err
		},
		"operation 77; allowed": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Reduce(ctx, t, 1, coppice.Op(77))
			return err
		},
		"allgather: cannot send chan int": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllGather(ctx, t, make(chan int))
			return err
		},
		"allreduce: cannot send func()": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllReduceFunc(ctx, t, func() {}, func(a, b func()) func() { return a })
			return err
		},
		"allgather: Into has a []string, the operation a []int": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllGather(ctx, t, 1, coppice.Into([]string{"a"}))
			return err
		},
		"gather: Into has a [][]int32, the operation a [][]int64": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Gather(ctx, t, []int64{1}, coppice.Into([][]int32{}))
			return err
		},
		"allreduce: Into has a []int32, the operation a []int64": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllReduce(ctx, t, []int64{1}, coppice.Sum, coppice.Into([]int32{1}))
			return err
		},
		"allreduce: Into has a []int, the operation a int": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllReduce(ctx, t, 1, coppice.Sum, coppice.Into([]int{1}))
			return err
		},
		"scatter: Into has a []int, the operation a []string": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Scatter(ctx, t, make([][]string, 5), coppice.Into([]int{1}), coppice.Shared())
			return err
		},
	}
	rng := rand.New(rand.NewPCG(3, 1))
	for _, v := range venues(p, rng) {
		err := v.run(t, stage.Patience(t), func(ctx context.Context, task *coppice.Task) error {
			for _, want := range slices.Sorted(maps.Keys(calls)) {
				err := calls[want](ctx, task)
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v instead of %s", err, want)
				}
				if n, err := coppice.AllReduce(ctx, task, 1, coppice.Sum); err != nil || n != p {
					return fmt.Errorf("after %s: %d, %w", want, n, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// TestIntoOfNamedTypes: a slice of a named type is received into one of that type.
func TestIntoOfNamedTypes(t *testing.T) {
	err := coppice.Local(stage.Patience(t), 3, func(ctx context.Context, task *coppice.Task) error {
		dst := make(codes, 4, 8)
		for _, opts := range [][]coppice.Option{{coppice.Into(dst)}, {coppice.Into(dst), coppice.Shared()}} {
			got, err := coppice.AllReduce(ctx, task, codes{1, 2}, coppice.Sum, opts...)
			if err != nil {
				return err
			}
			if !slices.Equal(got, codes{3, 6}) || &got[0] != &dst[0] {
				return fmt.Errorf("%v, %v", got, dst)
			}
			back, err := coppice.Broadcast(ctx, task, codes{7, 8, 9}, opts...)
			if err != nil {
				return err
			}
			if !slices.Equal(back, codes{7, 8, 9}) {
				return fmt.Errorf("%v", back)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func reducing(v []float64, op coppice.Op) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.AllReduce(ctx, t, v, op)
		return err
	}
}

func gathering[T any](v T, opts ...coppice.Option) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Gather(ctx, t, v, opts...)
		return err
	}
}

func scattering(n int, opts ...coppice.Option) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Scatter(ctx, t, make([]int, n), opts...)
		return err
	}
}

func joining(ctx context.Context, t *coppice.Task) error {
	_, err := coppice.AllReduceFunc(ctx, t, "x", func(a, b string) string { return a + b })
	return err
}

func scanning(n int) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.Scan(ctx, t, make([]int16, n), coppice.Sum)
		return err
	}
}

// partsOf is a reduce-scatter of parts that have so many numbers.
func partsOf(lengths ...int) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		parts := stage.Fill(t.Size(), func(d int) []float64 { return make([]float64, lengths[d%len(lengths)]) })
		_, err := coppice.ReduceScatter(ctx, t, parts, coppice.Sum)
		return err
	}
}

func exScanning(n int) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.ExScan(ctx, t, make([]int16, n), coppice.Sum)
		return err
	}
}

func allGathering[T any](v T) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.AllGather(ctx, t, v)
		return err
	}
}

func exchanging(n int) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		_, err := coppice.AllToAll(ctx, t, make([]int, n))
		return err
	}
}

// The misuses of reductions, gathers and scatters.
func init() {
	large := make([]float64, 100_000)
	for name, m := range map[string]misuse{
		"lengths of reduced":            {deed: reducing([]float64{1}, coppice.Sum), others: reducing([]float64{1, 2}, coppice.Sum), kind: "mismatch"},
		"lengths of large reduced":      {deed: reducing(large[1:], coppice.Sum), others: reducing(large, coppice.Sum), kind: "mismatch"},
		"small and large reduced":       {deed: reducing(large[:1], coppice.Sum), others: reducing(large, coppice.Sum), kind: "mismatch"},
		"none and some reduced":         {deed: reducing(nil, coppice.Sum), others: reducing(large[:2], coppice.Sum), kind: "mismatch"},
		"operations of reductions":      {deed: reducing([]float64{1}, coppice.Sum), others: reducing([]float64{1}, coppice.Max), kind: "mismatch"},
		"lengths of scanned":            {deed: scanning(3), others: scanning(4), kind: "mismatch"},
		"lengths of scanned before":     {deed: exScanning(3), others: exScanning(4), kind: "mismatch"},
		"lengths of parts":              {deed: partsOf(3), others: partsOf(2), kind: "mismatch"},
		"small and large parts":         {deed: partsOf(2), others: partsOf(20_000), kind: "mismatch"},
		"some parts and none":           {deed: partsOf(2), others: partsOf(0), kind: "mismatch"},
		"order of lengths of parts":     {deed: partsOf(1, 2), others: partsOf(2, 1), kind: "mismatch"},
		"scan, exscan":                  {deed: scanning(3), others: exScanning(3), kind: "mismatch"},
		"reducescatter, alltoall":       {deed: partsOf(1), others: exchangingAll, kind: "mismatch"},
		"returns, reducescatter":        {deed: nothing, others: partsOf(1), returns: true, kind: "mismatch"},
		"types gathered":                {deed: gathering("a"), others: gathering(1), kind: "mismatch"},
		"roots of gathers":              {deed: gathering(1, coppice.Root(1)), others: gathering(1, coppice.Root(3)), kind: "mismatch"},
		"types gathered by all":         {deed: allGathering("a"), others: allGathering([]byte("a")), kind: "mismatch"},
		"roots of scatters":             {deed: scatteringFrom(stage.Odd), others: scatteringFrom(0), kind: "mismatch"},
		"allreduce by func, gather":     {deed: joining, others: gathering("x"), kind: "mismatch"},
		"allgather, barrier":            {deed: allGathering(1), others: stage.Barrier, kind: "mismatch"},
		"scan, allreduce":               {deed: scanning(1), others: reducing([]float64{1}, coppice.Sum), kind: "mismatch"},
		"parts missing":                 {deed: exchanging(3), others: exchangingAll, returns: true, kind: "lost"},
		"returns, allreduce":            {deed: nothing, others: reducing([]float64{1}, coppice.Sum), returns: true, kind: "mismatch"},
		"returns late, allgather":       {deed: late(nothing), others: allGathering("a"), returns: true, kind: "mismatch"},
		"returns, alltoall":             {deed: nothing, others: exchangingAll, returns: true, kind: "mismatch"},
		"returns late, scan":            {deed: late(nothing), others: scanning(1), returns: true, kind: "mismatch"},
		"returns, scatter":              {deed: nothing, others: scatteringFrom(stage.Odd), returns: true, kind: "mismatch"},
		"returns, many gathers":         {deed: nothing, others: often(gathering(1)), returns: true, kind: "mismatch"},
		"returns, gather to it":         {deed: nothing, others: gathering(1, coppice.Root(stage.Odd)), returns: true, kind: "mismatch"},
		"returns late, large":           {deed: late(nothing), others: reducing(large, coppice.Sum), returns: true, kind: "mismatch"},
		"fails, allreduce":              {deed: stage.Fail, others: reducing([]float64{1}, coppice.Sum), returns: true, kind: "lost"},
		"fails late, alltoall":          {deed: late(stage.Fail), others: exchangingAll, returns: true, kind: "lost"},
		"fails late, allreduce by func": {deed: late(stage.Fail), others: joining, returns: true, kind: "lost"},
	} {
		misuses[name] = m
	}
}

// exchangingAll is exchanging with a part for each.
func exchangingAll(ctx context.Context, t *coppice.Task) error { return exchanging(t.Size())(ctx, t) }

func scatteringFrom(root int) deed {
	return func(ctx context.Context, t *coppice.Task) error {
		return scattering(t.Size(), coppice.Root(root))(ctx, t)
	}
}

// TestLastOneWaitsInCollectives has one task that waits while all others have
// returned.
func TestLastOneWaitsInCollectives(t *testing.T) {
	for name, f := range map[string]deed{
		"reduce": reducing([]float64{1}, coppice.Sum), "allgather": allGathering("a"), "alltoall": exchangingAll,
		"scatter": scatteringFrom(0), "gather": gathering(1, coppice.Root(stage.Odd)), "scan": scanning(2), "exscan": exScanning(2), "reducescatter": partsOf(2), "func": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.ScanFunc(ctx, t, "x", func(a, b string) string { return a + b })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []venue{{kind: inMemory, n: 4}, {kind: venueKinds[1], n: 4}, {kind: venueKinds[1], n: 2, owner: []int32{0, 1, 0, 1}}} {
				err := v.run(t, stage.Patience(t), func(ctx context.Context, task *coppice.Task) error {
					if task.Rank() != stage.Odd {
						return nil
					}
					err := f(ctx, task)
					if e := (*coppice.FailedError)(nil); !errors.Is(err, coppice.ErrMismatch) || !errors.As(err, &e) || len(e.Tasks) == 0 || e.Tasks[0] == stage.Odd {
						t.Errorf("%v: %v", v, err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

var errBroken = errors.New("broken")

// userFuncs are reductions by a function that one task's own misuses.
var userFuncs = map[string]func(ctx context.Context, t *coppice.Task, f func(a, b float64) float64) (float64, error){
	"reduce": func(ctx context.Context, t *coppice.Task, f func(a, b float64) float64) (float64, error) {
		return coppice.ReduceFunc(ctx, t, float64(t.Rank()), f)
	},
	"allreduce": func(ctx context.Context, t *coppice.Task, f func(a, b float64) float64) (float64, error) {
		return coppice.AllReduceFunc(ctx, t, float64(t.Rank()), f)
	},
	"exscan": func(ctx context.Context, t *coppice.Task, f func(a, b float64) float64) (float64, error) {
		return coppice.ExScanFunc(ctx, t, float64(t.Rank()), f)
	},
	"reducescatter": func(ctx context.Context, t *coppice.Task, f func(a, b float64) float64) (float64, error) {
		return coppice.ReduceScatterFunc(ctx, t, make([]float64, t.Size()), f)
	},
	"scan": func(ctx context.Context, t *coppice.Task, f func(a, b float64) float64) (float64, error) {
		return coppice.ScanFunc(ctx, t, float64(t.Rank()), f)
	},
}

// names tells whether an error says that a task is at fault.
func names(err error, task int) bool {
	var f *coppice.FailedError
	return errors.As(err, &f) && slices.Equal(f.Tasks, []int{task}) && (errors.Is(err, coppice.ErrLost) || errors.Is(err, coppice.ErrMismatch))
}

// TestUserFunctionPanics: a program that survives the panic of its own function
// has spoiled the operation for those who need it.
func TestUserFunctionPanics(t *testing.T) {
	for name, call := range userFuncs {
		for _, v := range []venue{{kind: inMemory, n: 5}, {kind: venueKinds[1], n: 5}, {kind: venueKinds[2], n: 2, owner: []int32{0, 1, 0, 1, 1}}} {
			var told atomic.Int64
			var others sync.WaitGroup
			others.Add(4)
			err := v.run(t, stage.PatienceOf(t, 20*time.Second), func(ctx context.Context, task *coppice.Task) (err error) {
				const culprit = 0 // it combines in all of them
				defer func() {
					if recover() != nil {
						err = errBroken
						return
					}
					others.Done() // who returns may be to blame, too
					others.Wait()
				}()
				_, err = call(ctx, task, func(a, b float64) float64 {
					if task.Rank() == culprit {
						panic("on purpose")
					}
					return a + b
				})
				if err == nil {
					err = coppice.Barrier(ctx, task)
				}
				if names(err, culprit) {
					told.Add(1)
					return nil
				}
				return err
			})
			if !errors.Is(err, errBroken) || told.Load() != 4 {
				t.Errorf("%s, %v: told %d: %v", name, v, told.Load(), err)
			}
		}
	}
}

// TestSlowUserFunction: while a task's function takes its time, operations of
// other groups go on, at this task, too.
func TestSlowUserFunction(t *testing.T) {
	for name, call := range userFuncs {
		for _, v := range []venue{{kind: inMemory, n: 4}, {kind: venueKinds[1], n: 4}, {kind: venueKinds[2], n: 2, owner: []int32{0, 1, 0, 1}}} {
			err := v.run(t, stage.Patience(t), func(ctx context.Context, task *coppice.Task) error {
				fork := task.Fork()
				others := make(chan error, 1)
				go func() {
					for i := range 200 {
						n, err := coppice.AllReduce(ctx, fork, i, coppice.Sum)
						if err != nil || n != 4*i {
							others <- fmt.Errorf("beside it: %d, %w", n, err)
							return
						}
					}
					others <- nil
				}()
				var once atomic.Bool
				var beside error
				_, err := call(ctx, task, func(a, b float64) float64 {
					if once.CompareAndSwap(false, true) {
						beside = <-others // all of them are done before this returns
						others <- nil
					}
					return a + b
				})
				return errors.Join(err, beside, <-others)
			})
			if err != nil {
				t.Errorf("%s, %v: %v", name, v, err)
			}
		}
	}
}

// TestCancelledInTheMiddle: a task whose context ends in an operation has an error
// at once; the others have the result, or an error that names it, when it returns.
func TestCancelledInTheMiddle(t *testing.T) {
	large := make([]float64, 1<<16)
	for i := range large {
		large[i] = float64(i)
	}
	calls := map[string]func(ctx context.Context, t *coppice.Task) error{
		"allreduce": func(ctx context.Context, t *coppice.Task) error {
			got, err := coppice.AllReduce(ctx, t, large, coppice.Sum)
			for i := range got {
				if err == nil && got[i] != 5*large[i] {
					return fmt.Errorf("wrong result: %v", got[i])
				}
			}
			return err
		},
		"allgather": func(ctx context.Context, t *coppice.Task) error {
			got, err := coppice.AllGather(ctx, t, large[t.Rank():])
			for r := range got {
				if err == nil && !slices.Equal(got[r], large[r:]) {
					return errors.New("wrong result")
				}
			}
			return err
		},
		"alltoall": func(ctx context.Context, t *coppice.Task) error {
			got, err := coppice.AllToAll(ctx, t, stage.Fill(5, func(d int) []float64 { return large[d:] }))
			for r := range got {
				if err == nil && !slices.Equal(got[r], large[t.Rank():]) {
					return errors.New("wrong result")
				}
			}
			return err
		},
		"scan": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Scan(ctx, t, large, coppice.Max)
			return err
		},
		"func": func(ctx context.Context, t *coppice.Task) error {
			got, err := coppice.AllReduceFunc(ctx, t, "x", func(a, b string) string {
				time.Sleep(time.Millisecond)
				return a + b
			})
			if err == nil && got != "xxxxx" {
				return fmt.Errorf("wrong result: %q", got)
			}
			return err
		},
		"gather": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Gather(ctx, t, large, coppice.Root(3))
			return err
		},
		"broadcast": func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.Broadcast(ctx, t, large, coppice.Root(1))
			return err
		},
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for name, call := range calls {
		for _, v := range []venue{{kind: inMemory, n: 5}, {kind: venueKinds[1], n: 5}, {kind: venueKinds[2], n: 3, owner: []int32{0, 1, 2, 1, 0}}} {
			for range stage.Short(4, 1) {
				after := time.Duration(math.Exp(rng.Float64()*10)) * time.Microsecond
				var others sync.WaitGroup
				others.Add(4)
				err := v.run(t, stage.PatienceOf(t, 20*time.Second), func(ctx context.Context, task *coppice.Task) error {
					own := ctx
					if task.Rank() == stage.Odd {
						var cancel context.CancelFunc
						own, cancel = context.WithTimeout(ctx, after)
						defer cancel()
					} else {
						defer others.Wait()
						defer others.Done()
					}
					for range 6 {
						err := call(own, task)
						switch {
						case err == nil:
							continue
						case task.Rank() == stage.Odd:
							if !errors.Is(err, context.DeadlineExceeded) {
								return fmt.Errorf("not its own end: %w", err)
							}
						case !names(err, stage.Odd):
							return fmt.Errorf("names others: %w", err)
						}
						return nil
					}
					return nil
				})
				if err != nil {
					t.Fatalf("%s, %v, ended after %v: %v", name, v, after, err)
				}
			}
		}
	}
}
