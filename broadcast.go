package coppice

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/runtime"
)

// Barrier returns when all tasks of the group have called it.
func Barrier(ctx context.Context, t *Task) error {
	_, err := t.m.Do(ctx, runtime.Call{Plan: runtime.BarrierPlan()})
	return failed("barrier", err)
}

// Broadcast gives the root's v to all tasks; what the others pass is ignored. It
// returns as soon as the value is here: others may not have it yet.
func Broadcast[T any](ctx context.Context, t *Task, v T, opts ...Option) (T, error) {
	var s settings
	s.read(opts)
	plan, err := s.plan(t.Size())
	c, unsendable := codec.For[T]()
	if err == nil {
		err = unsendable
	}
	var zero T
	if err != nil {
		return zero, fmt.Errorf("broadcast: %w", err)
	}
	call := runtime.Call{Plan: plan, Sign: c.Signature(), Type: c.Name()}
	root := t.Rank() == s.root
	if root {
		if call.Value, err = encode(c, &v, s.shared); err != nil {
			return zero, fmt.Errorf("broadcast: %w", err)
		}
	}
	r, err := t.m.Do(ctx, call)
	if err != nil {
		return zero, failed("broadcast", err)
	}
	if root {
		return v, nil
	}
	if v, err = decode(c, r, &s); err != nil {
		return zero, fmt.Errorf("broadcast: %w", err)
	}
	return v, nil
}

// encode returns the bytes of a value, which must not change any more: a copy,
// unless the memory is shared.
func encode[T any](c *codec.Codec[T], v *T, shared bool) (b []byte, err error) {
	ok := false
	if shared {
		b, ok = c.View(v)
	}
	if !ok {
		b, err = c.Append(nil, v)
	}
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

// decode returns the value of a result.
func decode[T any](c *codec.Codec[T], r runtime.Result, s *settings) (v T, err error) {
	if s.into == nil {
		return v, c.Decode(r.Value, &v, !r.Shared || s.shared)
	}
	dst, ok := s.into.(T)
	if !ok {
		return v, fmt.Errorf("Into has a %T, the operation a %s; allowed: the same", s.into, c.Name())
	}
	return c.DecodeInto(r.Value, dst)
}
