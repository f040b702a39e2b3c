package coppice

import (
	"context"

	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Barrier returns when all tasks of the group have called it.
func Barrier(ctx context.Context, t *Task, opts ...Option) error {
	_, err := perform(ctx, t, "barrier", opts, func(g *Task, s settings) (none struct{}, err error) {
		if err := s.check(collective.AllGather, barrierTakes, g.Size()); err != nil {
			return none, err
		}
		_, err = g.carryOut(ctx, &node.Call{Plan: s.planned(node.BarrierPlan()), Agreed: s.mode == agreed})
		return none, err
	})
	return err
}

// Broadcast gives the root's v to all tasks; what the others pass is ignored. It
// returns as soon as the value is here: others may not have it yet.
func Broadcast[T any](ctx context.Context, t *Task, v T, opts ...Option) (T, error) {
	return perform(ctx, t, "broadcast", opts, func(g *Task, s settings) (T, error) { return broadcast(ctx, g, v, s) })
}

func broadcast[T any](ctx context.Context, t *Task, v T, s settings) (zero T, err error) {
	c, err := codecOf[T](t)
	if err == nil {
		err = s.check(collective.Broadcast, takes(collective.Broadcast), t.Size())
	}
	var plan node.Plan
	routed := s.routed()
	if err == nil && routed {
		plan, err = s.route()
	}
	var one [1]T
	var into []T
	if err == nil {
		into, err = dst(c, &s, &one)
	}
	if err != nil {
		return zero, err
	}
	call := node.Call{Sign: c.Signature(), Type: c.Name(), Agreed: s.mode == agreed}
	root := t.Rank() == s.root
	if root {
		shared := s.shared || t.Size() == 1 // nobody is sent it
		if routed {
			call.Value, err = encode(c, &v, shared, nil)
		} else { // what small values are sent to is not asked for them again
			call.Value, err = encodeSmall(t, c, &v, shared)
		}
		if err != nil {
			return zero, err
		}
	}
	if !routed {
		plan = t.choose(collective.Broadcast, node.Choice{Root: s.root, Bytes: int64(len(call.Value)), Pieces: true, Decides: root})
	}
	call.Plan = s.planned(plan)
	if !root {
		call.Room = only(rooms(c, &s, into))
		call.Copies = copies(c, len(into), 1)
	}
	r, err := t.do(ctx, &call)
	switch {
	case err != nil:
		return zero, err
	case root:
		return v, nil
	}
	return decode(c, r, &s)
}
