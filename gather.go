package coppice

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Scatter gives parts[r] of the root to task r. What the others pass is ignored.
// Parts may differ in length.
func Scatter[T any](ctx context.Context, t *Task, parts []T, opts ...Option) (part T, err error) {
	return perform(ctx, t, "scatter", opts, func(g *Task, s settings) (part T, err error) {
		var b blocks[T]
		if err := b.begin(g, collective.Scatter, s); err != nil {
			return part, err
		}
		some := parts
		if b.choice.Decides = g.Rank() == b.s.root; b.choice.Decides {
			if some, err = few(t, g, parts); err == nil {
				err = b.several(some)
			}
			if err != nil {
				return part, err
			}
			b.choice.Bytes = int64(b.size)
		}
		r, err := b.do(ctx)
		switch {
		case err != nil:
			return part, err
		case b.choice.Decides && b.s.into == nil && len(r.Values) == 1:
			return some[b.s.root], nil
		}
		return decode(b.codec, node.Result{Value: r.Values[0], Shared: r.Lent[0]}, &b.s)
	})
}

// Gather returns, at the root, the values of all tasks by rank, and nil at the
// others. Values may differ in length.
func Gather[T any](ctx context.Context, t *Task, v T, opts ...Option) ([]T, error) {
	return gather(ctx, t, collective.Gather, v, opts)
}

// AllGather returns the values of all tasks by rank, at all of them. Values may
// differ in length.
func AllGather[T any](ctx context.Context, t *Task, v T, opts ...Option) ([]T, error) {
	return gather(ctx, t, collective.AllGather, v, opts)
}

// gather carries out one of the two.
func gather[T any](ctx context.Context, t *Task, op collective.Op, v T, opts []Option) ([]T, error) {
	return perform(ctx, t, op.String(), opts, func(g *Task, s settings) ([]T, error) {
		all, err := gathered(ctx, g, op, v, s)
		return spread(t, g, all), err
	})
}

// gathered is gather within an operation.
func gathered[T any](ctx context.Context, t *Task, op collective.Op, v T, s settings) (all []T, err error) {
	var b blocks[T]
	if err := b.begin(t, op, s); err != nil {
		return nil, err
	}
	if b.call.Value, err = encodeSmall(t, b.codec, &v, lends(b.codec, &b.s, []T{v}, b.into)); err != nil {
		return nil, err
	}
	b.size = len(b.call.Value)
	return b.all(ctx)
}

// AllToAll gives parts[r] of each task to task r, and returns what the task got,
// by the rank of the task it came from. Parts may differ in length.
func AllToAll[T any](ctx context.Context, t *Task, parts []T, opts ...Option) ([]T, error) {
	return perform(ctx, t, "alltoall", opts, func(g *Task, s settings) (all []T, err error) {
		var b blocks[T]
		if err := b.begin(g, collective.AllToAll, s); err != nil {
			return nil, err
		}
		some, err := few(t, g, parts)
		if err == nil {
			err = b.several(some)
		}
		if err != nil {
			return nil, err
		}
		all, err = b.all(ctx)
		return spread(t, g, all), err
	})
}

// blocks is an operation whose values are blocks of any length.
type blocks[T any] struct {
	t      *Task
	op     collective.Op
	s      settings
	codec  *codec.Codec[T]
	call   node.Call
	choice node.Choice
	into   []T
	size   int // of the largest block
}

// begin checks the settings of an operation.
func (b *blocks[T]) begin(t *Task, op collective.Op, s settings) (err error) {
	b.t, b.op, b.s = t, op, s
	if b.codec, err = codecOf[T](b.t); err == nil {
		err = s.check(op, takes(op), t.Size())
	}
	if err != nil {
		return err
	}
	results := t.Size()
	switch all, ok := s.into.([]T); {
	case op == collective.Scatter || op == collective.ReduceScatter: // there is one
		if results = 1; s.into != nil {
			into, err := given(b.codec, &s)
			if err != nil {
				return err
			}
			b.into = []T{into}
		}
	case s.into != nil && !ok:
		return fmt.Errorf("Into has a %T, the operation a []%s; allowed: the same", s.into, b.codec.Name())
	default:
		b.into = all
	}
	b.call.Rooms, b.call.Copies = rooms(b.codec, &s, b.into), copies(b.codec, len(b.into), results)
	b.call.Sign, b.call.Type, b.call.Agreed = b.codec.Signature(), b.codec.Name(), b.s.mode == agreed
	b.choice = node.Choice{Root: b.s.rootOf(op), Bytes: node.Unknown}
	if n, ok := b.codec.Size(); ok {
		b.choice.Bytes = int64(n)
	}
	return nil
}

// several encodes one part for each task.
func (b *blocks[T]) several(parts []T) (err error) {
	b.call.Values, b.size, err = encodeAll(b.t, b.codec, parts, lends(b.codec, &b.s, parts, b.into))
	return err
}

func (b *blocks[T]) do(ctx context.Context) (node.Result, error) {
	b.call.Plan = b.s.planned(b.t.choose(b.op, b.choice))
	return b.t.do(ctx, &b.call)
}

// all carries out the operation and decodes a value for each task.
func (b *blocks[T]) all(ctx context.Context) ([]T, error) {
	r, err := b.meet(ctx)
	if err != nil || r.Values == nil {
		return nil, err
	}
	all := b.into
	if cap(all) < len(r.Values) {
		all = make([]T, len(r.Values))
	}
	all = all[:len(r.Values)]
	for i, v := range r.Values {
		switch {
		case b.into != nil && i < len(b.into):
			all[i], err = b.codec.DecodeInto(v, all[i])
		default:
			err = b.codec.Decode(v, &all[i], !r.Lent[i] || b.s.shared && i != b.t.Rank())
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// meet carries out the operation. Where tasks do not know each other's sizes, it
// is first tried as for small ones, in which large ones are absent: who sees such
// a block, and all do, does it again as for large ones.
func (b *blocks[T]) meet(ctx context.Context) (node.Result, error) {
	if b.op == collective.Gather && b.choice.Bytes < 0 {
		b.choice.Bytes = math.MaxInt64 // large blocks go straight to the root
	}
	if b.choice.Bytes >= 0 {
		return b.do(ctx)
	}
	small, limit := b.t.at().Small(b.op)
	if !small {
		return b.do(ctx)
	}
	whole := b.call
	if int64(b.size) > limit {
		b.call.Values, b.call.Value = make([][]byte, max(len(b.call.Values), 1)), nil
	}
	b.call.Rooms, b.call.Half = nil, true
	r, err := b.do(ctx)
	if err != nil {
		if ctx.Err() != nil && !b.call.Agreed { // the others may go on with the second half
			b.t.abandon(b.op)
		}
		return r, err
	}
	if !slices.ContainsFunc(r.Values, func(v []byte) bool { return v == nil }) {
		return r, nil
	}
	b.call, b.choice.Bytes = whole, limit+1
	b.call.Again = true
	return b.do(ctx)
}
