package coppice

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Scatter gives parts[r] of the root to task r. What the others pass is ignored.
// Parts may differ in length.
func Scatter[T any](ctx context.Context, t *Task, parts []T, opts ...Option) (part T, err error) {
	if err := t.given(ctx, "scatter"); err != nil {
		return part, err
	}
	if isWithoutLost(opts) {
		return withoutLost(ctx, t, "scatter", opts, func(g *Task, opts []Option) (part T, err error) {
			var s settings
			if s.read(opts); g.Rank() == s.root {
				err = checkParts(t, "scatter", parts)
			}
			if err == nil {
				part, err = Scatter(ctx, g, few(t, g, parts), opts...)
			}
			return part, err
		})
	}
	var b blocks[T]
	if err := b.begin(t, collective.Scatter, opts); err != nil {
		return part, err
	}
	if b.s.into != nil {
		into, err := given(b.codec, &b.s)
		if err != nil {
			return part, b.named(err)
		}
		b.into = []T{into}
		b.rooms()
	}
	root := t.Rank() == b.s.root
	if root {
		if err := b.several(parts); err != nil {
			return part, err
		}
	}
	b.choice.Decides = root
	r, err := b.do(ctx)
	if err != nil {
		return part, err
	}
	if root && b.s.into == nil && len(r.Values) == 1 {
		return parts[b.s.root], nil
	}
	part, err = decode(b.codec, node.Result{Value: r.Values[0], Shared: r.Lent[0]}, &b.s)
	return part, b.named(err)
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
	if err := t.given(ctx, op.String()); err != nil {
		return nil, err
	}
	if isWithoutLost(opts) {
		return withoutLost(ctx, t, op.String(), opts, func(g *Task, opts []Option) ([]T, error) {
			some, err := gather(ctx, g, op, v, opts)
			return spread(t, g, some), err
		})
	}
	var b blocks[T]
	err := b.begin(t, op, opts)
	if err != nil {
		return nil, err
	}
	if b.call.Value, err = encodeSmall(t, b.codec, &v, lends(b.codec, &b.s, []T{v}, b.into)); err != nil {
		return nil, b.named(err)
	}
	b.size = len(b.call.Value)
	return b.all(ctx)
}

// AllToAll gives parts[r] of each task to task r, and returns what the task got,
// by the rank of the task it came from. Parts may differ in length.
func AllToAll[T any](ctx context.Context, t *Task, parts []T, opts ...Option) ([]T, error) {
	if err := t.given(ctx, "alltoall"); err != nil {
		return nil, err
	}
	if isWithoutLost(opts) {
		if err := checkParts(t, "alltoall", parts); err != nil {
			return nil, err
		}
		return withoutLost(ctx, t, "alltoall", opts, func(g *Task, opts []Option) ([]T, error) {
			some, err := AllToAll(ctx, g, few(t, g, parts), opts...)
			return spread(t, g, some), err
		})
	}
	var b blocks[T]
	if err := b.begin(t, collective.AllToAll, opts); err != nil {
		return nil, err
	}
	if err := b.several(parts); err != nil {
		return nil, err
	}
	return b.all(ctx)
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

// begin reads the options of an operation.
func (b *blocks[T]) begin(t *Task, op collective.Op, opts []Option) (err error) {
	b.t, b.op = t, op
	b.s.read(opts)
	if b.codec, err = codec.For[T](); err == nil {
		err = b.s.checkGiven(takes(op))
	}
	if err == nil {
		err = b.s.check(op, t.Size())
	}
	if err != nil {
		return b.named(err)
	}
	if op != collective.Scatter && b.s.into != nil {
		var ok bool
		if b.into, ok = b.s.into.([]T); !ok {
			return b.named(fmt.Errorf("Into has a %T, the operation a []%s; allowed: the same", b.s.into, b.codec.Name()))
		}
	}
	b.rooms()
	b.call.Sign, b.call.Type, b.call.Agreed = b.codec.Signature(), b.codec.Name(), b.s.mode.agreed
	b.choice = node.Choice{Root: b.s.rootOf(op), Bytes: node.Unknown}
	if n, ok := b.codec.Size(); ok {
		b.choice.Bytes = int64(n)
	}
	return nil
}

// rooms says where results go.
func (b *blocks[T]) rooms() {
	results := b.t.Size()
	if b.op == collective.Scatter {
		results = 1
	}
	b.call.Rooms, b.call.Copies = rooms(b.codec, &b.s, b.into), copies(b.codec, len(b.into), results)
}

func (b *blocks[T]) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v: %w", b.op, err)
}

// several encodes one part for each task.
func (b *blocks[T]) several(parts []T) (err error) {
	if err := checkParts(b.t, b.op.String(), parts); err != nil {
		return err
	}
	b.call.Values, b.size, err = encodeAll(b.t, b.codec, parts, lends(b.codec, &b.s, parts, b.into))
	if b.op == collective.Scatter {
		b.choice.Bytes = int64(b.size)
	}
	return b.named(err)
}

func (b *blocks[T]) do(ctx context.Context) (node.Result, error) {
	b.call.Plan = b.s.planned(b.t.at().Choose(b.op, b.choice))
	r, err := b.t.do(ctx, b.call)
	return r, b.t.failed(b.op.String(), err)
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
			return nil, b.named(err)
		}
	}
	return all, nil
}

// meet carries out the operation. Where tasks do not know each other's sizes, it
// is first tried as for small ones, in which large ones are absent: who sees such
// a block, and all do, does it again as for large ones.
func (b *blocks[T]) meet(ctx context.Context) (node.Result, error) {
	if b.op == collective.Gather || b.choice.Bytes >= 0 {
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
			b.t.at().Abandon(b.op)
		}
		return r, err
	}
	for _, v := range r.Values {
		if v == nil {
			b.call, b.choice.Bytes = whole, limit+1
			b.call.Again = true
			return b.do(ctx)
		}
	}
	return r, nil
}
