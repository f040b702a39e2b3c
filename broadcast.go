package coppice

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Barrier returns when all tasks of the group have called it.
func Barrier(ctx context.Context, t *Task, opts ...Option) error {
	if err := t.given(ctx, "barrier"); err != nil {
		return err
	}
	if isWithoutLost(opts) {
		_, err := withoutLost(ctx, t, "barrier", opts, func(g *Task, opts []Option) (struct{}, error) {
			return struct{}{}, Barrier(ctx, g, opts...)
		})
		return err
	}
	var s settings
	s.read(opts)
	err := s.checkGiven(barrierTakes)
	if err == nil {
		err = s.checkMode(collective.AllReduce)
	}
	if err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	_, err = t.carryOut(ctx, node.Call{Plan: s.planned(node.BarrierPlan()), Agreed: s.mode.agreed})
	return t.failed("barrier", err)
}

// Broadcast gives the root's v to all tasks; what the others pass is ignored. It
// returns as soon as the value is here: others may not have it yet.
func Broadcast[T any](ctx context.Context, t *Task, v T, opts ...Option) (T, error) {
	if err := t.given(ctx, "broadcast"); err != nil {
		return v, err
	}
	if isWithoutLost(opts) {
		return withoutLost(ctx, t, "broadcast", opts, func(g *Task, opts []Option) (T, error) { return Broadcast(ctx, g, v, opts...) })
	}
	var s settings
	s.read(opts)
	c, err := codec.For[T]()
	if err == nil {
		err = s.checkGiven(rootedTakes)
	}
	if err == nil {
		err = s.check(collective.Broadcast, t.Size())
	}
	var one [1]T
	var into []T
	if err == nil {
		into, err = dst(c, &s, &one)
	}
	var zero T
	if err != nil {
		return zero, fmt.Errorf("broadcast: %w", err)
	}
	call := node.Call{Sign: c.Signature(), Type: c.Name(), Agreed: s.mode.agreed}
	root := t.Rank() == s.root
	if root {
		shared := s.shared || t.Size() == 1 // nobody is sent it
		if s.mode.auto {                    // what small values are sent to is not asked for them again
			call.Value, err = encodeSmall(t, c, &v, shared)
		} else {
			call.Value, err = encode(c, &v, shared, nil)
		}
		if err != nil {
			return zero, fmt.Errorf("broadcast: %w", err)
		}
	}
	call.Plan = s.mode.plan.WithRoot(s.root)
	if s.mode.auto {
		call.Plan = t.at().Choose(collective.Broadcast, node.Choice{Root: s.root, Bytes: int64(len(call.Value)), Pieces: true, Decides: root})
	}
	call.Plan = s.planned(call.Plan)
	if !root {
		call.Room = only(rooms(c, &s, into))
		call.Copies = copies(c, len(into), 1)
	}
	r, err := t.do(ctx, call)
	if err != nil {
		return zero, t.failed("broadcast", err)
	}
	if root {
		return v, nil
	}
	if v, err = decode(c, r, &s); err != nil {
		return zero, fmt.Errorf("broadcast: %w", err)
	}
	return v, nil
}
