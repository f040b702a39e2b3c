package coppice

import (
	"cmp"
	"context"
	"errors"
	"math"
	"reflect"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/fold"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Number is a number.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Numeric is a [Number], or a slice of numbers, which is combined element by
// element and has the same length at all tasks.
type Numeric interface {
	Number |
		~[]int | ~[]int8 | ~[]int16 | ~[]int32 | ~[]int64 |
		~[]uint | ~[]uint8 | ~[]uint16 | ~[]uint32 | ~[]uint64 |
		~[]float32 | ~[]float64 | ~[]complex64 | ~[]complex128
}

// Op is a way to combine numbers.
type Op uint8

// The ways to combine numbers. Min and Max are for numbers that have an order,
// and a NaN wins; And, Or and Xor are for integers, bit by bit.
const (
	Sum Op = iota
	Product
	Min
	Max
	And
	Or
	Xor
)

// String is the name: sum, product, min, max, and, or, xor.
func (op Op) String() string { return fold.Op(op).String() }

// At is a value and the task that it came from, for [MinAt] and [MaxAt].
type At[T cmp.Ordered] struct {
	Value T
	Rank  int
}

// MinAt is the smaller of two values, and of equal ones that of the lower rank:
// AllReduceFunc(ctx, t, At[T]{v, t.Rank()}, MinAt[T]) tells the smallest value
// and where it is.
func MinAt[T cmp.Ordered](a, b At[T]) At[T] {
	if c := cmp.Compare(a.Value, b.Value); c < 0 || c == 0 && a.Rank <= b.Rank {
		return a
	}
	return b
}

// MaxAt is the larger of two values, and of equal ones that of the lower rank.
func MaxAt[T cmp.Ordered](a, b At[T]) At[T] {
	if c := cmp.Compare(a.Value, b.Value); c > 0 || c == 0 && a.Rank <= b.Rank {
		return a
	}
	return b
}

// Reduce combines the values of all tasks at the root; elsewhere the result is
// zero. Floats are combined in one order and association, whatever the sizes,
// the transport and who runs which task: the result is the same bits.
func Reduce[T Numeric](ctx context.Context, t *Task, v T, op Op, opts ...Option) (T, error) {
	return reduce(ctx, t, collective.Reduce, v, op, opts)
}

// AllReduce combines the values of all tasks at all tasks, as Reduce does.
func AllReduce[T Numeric](ctx context.Context, t *Task, v T, op Op, opts ...Option) (T, error) {
	return reduce(ctx, t, collective.AllReduce, v, op, opts)
}

// Scan combines, at each task, the values of the tasks up to it, its own
// included. The result at task r is what Reduce among tasks 0 … r gives.
func Scan[T Numeric](ctx context.Context, t *Task, v T, op Op, opts ...Option) (T, error) {
	return reduce(ctx, t, collective.Scan, v, op, opts)
}

// ExScan combines, at each task, the values of the tasks before it, its own not
// included. The result at task r is what Reduce among tasks 0 … r−1 gives, and
// at task 0 it is zero.
func ExScan[T Numeric](ctx context.Context, t *Task, v T, op Op, opts ...Option) (T, error) {
	return reduce(ctx, t, collective.ExScan, v, op, opts)
}

// ReduceScatter combines parts[r] of all tasks at task r, for each r. The result
// is what Reduce of these parts gives at root r. Each of the parts of a task may
// have a length of its own, which is the same at all tasks.
func ReduceScatter[T Numeric](ctx context.Context, t *Task, parts []T, op Op, opts ...Option) (part T, err error) {
	return reduceScatter(ctx, t, parts, opts, func(c *codec.Codec[T]) (node.Call, error) {
		call, _, err := numbers(c, op)
		return call, err
	})
}

// ReduceFunc combines the values of all tasks at the root, in the order of ranks:
// f(a, b) gets a from lower ranks than b. It must be associative. See [Commutative].
func ReduceFunc[T any](ctx context.Context, t *Task, v T, f func(a, b T) T, opts ...Option) (T, error) {
	return reduceFunc(ctx, t, collective.Reduce, v, f, opts)
}

// AllReduceFunc is [ReduceFunc] with the result at all tasks.
func AllReduceFunc[T any](ctx context.Context, t *Task, v T, f func(a, b T) T, opts ...Option) (T, error) {
	return reduceFunc(ctx, t, collective.AllReduce, v, f, opts)
}

// ScanFunc is Scan with a function, as in [ReduceFunc].
func ScanFunc[T any](ctx context.Context, t *Task, v T, f func(a, b T) T, opts ...Option) (T, error) {
	return reduceFunc(ctx, t, collective.Scan, v, f, opts)
}

// ExScanFunc is ExScan with a function, as in [ReduceFunc].
func ExScanFunc[T any](ctx context.Context, t *Task, v T, f func(a, b T) T, opts ...Option) (T, error) {
	return reduceFunc(ctx, t, collective.ExScan, v, f, opts)
}

// ReduceScatterFunc is [ReduceScatter] with a function, as in [ReduceFunc]. Parts may
// differ in length.
func ReduceScatterFunc[T any](ctx context.Context, t *Task, parts []T, f func(a, b T) T, opts ...Option) (part T, err error) {
	return reduceScatter(ctx, t, parts, opts, func(c *codec.Codec[T]) (call node.Call, err error) {
		if f == nil {
			return call, errNoFunction
		}
		return function(c, f), nil
	})
}

// reduce carries out a reduction of numbers.
func reduce[T Numeric](ctx context.Context, t *Task, what collective.Op, v T, op Op, opts []Option) (result T, err error) {
	return perform(ctx, t, what.String(), opts, func(g *Task, s settings) (result T, err error) {
		c, err := codecOf[T](t)
		if err != nil {
			return result, err
		}
		call, exact, err := numbers(c, op)
		if err != nil {
			return result, err
		}
		return combined(ctx, g, what, c, &v, &s, call, exact)
	})
}

// numbers is a call that combines numbers. exact: the order in which they are combined makes no difference.
func numbers[T Numeric](c *codec.Codec[T], op Op) (call node.Call, exact bool, err error) {
	kind := reflect.TypeFor[T]().Kind()
	elem := c.ElemSize()
	if elem == 0 {
		elem, _ = c.Size()
	} else {
		kind = reflect.TypeFor[T]().Elem().Kind()
	}
	combine, exact, err := fold.For(fold.Op(op), kind)
	return node.Call{
		Sign: protocol.Mix(c.Signature(), uint64(op)), Type: c.Name(),
		Kind: collective.Kind{Elem: elem, Fold: combine},
	}, exact, err
}

// reduceFunc carries out a reduction with a function.
func reduceFunc[T any](ctx context.Context, t *Task, what collective.Op, v T, f func(a, b T) T, opts []Option) (result T, err error) {
	return perform(ctx, t, what.String(), opts, func(g *Task, s settings) (result T, err error) {
		c, err := codecOf[T](t)
		if err == nil && f == nil {
			err = errNoFunction
		}
		if err != nil {
			return result, err
		}
		return combined(ctx, g, what, c, &v, &s, function(c, f), false)
	})
}

// errNoFunction is the error of a nil function.
var errNoFunction = errors.New("no function; allowed: one that combines two values")

// function is a call that combines values by a function.
func function[T any](c *codec.Codec[T], f func(a, b T) T) node.Call {
	return node.Call{Sign: protocol.Mix(c.Signature(), functionSign), Type: c.Name(), Works: true, Kind: combining(c, f)}
}

// combining is the kind of data that a function combines.
func combining[T any](c *codec.Codec[T], f func(a, b T) T) collective.Kind {
	return collective.Kind{Loose: true, Fold: func(_, left, right []byte) ([]byte, error) {
		var a, b T
		if err := c.Decode(left, &a, false); err != nil {
			return nil, err
		}
		if err := c.Decode(right, &b, false); err != nil {
			return nil, err
		}
		v := f(a, b)
		return c.Append([]byte{}, &v)
	}}
}

// combined makes the call of a reduction. exact: the order in which values are combined makes no difference.
func combined[T any](ctx context.Context, t *Task, what collective.Op, c *codec.Codec[T], v *T, s *settings, call node.Call, exact bool) (result T, err error) {
	call.Agreed, call.Backup = s.mode == agreed, s.backup
	allowed := takes(what)
	if call.Works {
		allowed |= functionTakes
	}
	var one [1]T
	var into []T
	if err = s.check(what, allowed, t.Size()); err == nil {
		into, err = dst(c, s, &one)
	}
	if err == nil {
		shared := s.shared && (into == nil || lends(c, s, []T{*v}, into))
		call.Value, err = encodeSmall(t, c, v, shared)
	}
	if err != nil {
		return result, err
	}
	call.Room = only(rooms(c, s, into))
	call.Copies = copies(c, len(into), 1)
	if n, ok := c.Size(); ok && n <= wordMax && !call.Kind.Loose {
		call.Room = t.numberRoom()
	}
	choice := node.Choice{Root: s.rootOf(what), Bytes: int64(len(call.Value)), Pieces: true, AnyOrder: exact || s.commutes}
	if call.Kind.Loose {
		choice.Bytes, choice.Pieces = node.Unknown, false
		choice.Dear = s.backup == node.BackupAlways
	}
	if s.corrects(what) {
		choice.Corrected, choice.Root = true, s.root
		choice.Failures = s.correction.failures()
	}
	call.Plan = s.planned(t.choose(what, choice))
	r, err := t.do(ctx, &call)
	if err != nil || what == collective.Reduce && t.Rank() != s.root || what == collective.ExScan && t.Rank() == 0 {
		return result, err
	}
	return decode(c, r, s)
}

// reduceScatter carries out a reduction of parts, which call says how to combine.
func reduceScatter[T any](ctx context.Context, t *Task, parts []T, opts []Option, call func(*codec.Codec[T]) (node.Call, error)) (part T, err error) {
	return perform(ctx, t, collective.ReduceScatter.String(), opts, func(g *Task, s settings) (part T, err error) {
		var b blocks[T]
		if err := b.begin(g, collective.ReduceScatter, s); err != nil {
			return part, err
		}
		how, err := call(b.codec)
		if err != nil {
			return part, err
		}
		b.call.Sign, b.call.Works, b.call.Kind = how.Sign, how.Works, how.Kind
		some, err := few(t, g, parts)
		if err == nil {
			err = b.several(some)
		}
		if err != nil {
			return part, err
		}
		switch {
		case b.choice.Bytes != node.Unknown:
		case how.Kind.Loose: // others may have larger parts
			b.choice.Bytes = math.MaxInt64
		default:
			b.choice.Bytes, b.choice.Lengths = int64(b.size), lengths(b.call.Values)
		}
		r, err := b.do(ctx)
		if err != nil {
			return part, err
		}
		return decode(b.codec, node.Result{Value: r.Values[0], Shared: r.Lent[0]}, &b.s)
	})
}

// lengths stands for those of parts: tasks that pass others call another operation.
func lengths(parts [][]byte) uint16 {
	var sum uint64
	for _, p := range parts {
		sum = protocol.Mix(sum, uint64(len(p)))
	}
	return uint16(sum)
}
