package coppice

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol"
)

// Agree combines the values of all tasks with f, as AllReduceFunc does, and gives all
// of them the same: who returns knows that all others return the same, or have died.
//
// With Recovery Report it goes on without the dead: failed lists the ranks whose values
// are not in it, and is the same for all, too. With Replay there are none.
//
// The end of the context is a vote to abort. If it comes in time, all get ErrAborted;
// otherwise the decision, for which the call waits as long as Job.Silence before it
// gives up the group with ErrAbandoned.
//
// Agree works on a group that was revoked.
func Agree[T any](ctx context.Context, t *Task, v T, f func(a, b T) T) (agreed T, failed []int, err error) {
	const op = "agree"
	if err := t.given(ctx, op); err != nil {
		return agreed, nil, err
	}
	c, err := codec.For[T]()
	if err != nil {
		return agreed, nil, fmt.Errorf("%s: %w", op, err)
	}
	call := node.Call{Sign: protocol.Mix(c.Signature(), 1<<33), Type: c.Name(), Works: true, Kind: combining(c, f)}
	if call.Value, err = encode(c, &v, false, nil); err != nil {
		return agreed, nil, fmt.Errorf("%s: %w", op, err)
	}
	d, err := t.at().Agree(ctx, call)
	if err != nil {
		return agreed, nil, t.failed(op, err)
	}
	if err := c.Decode(d.Value, &agreed, false); err != nil {
		return agreed, nil, fmt.Errorf("%s: %w", op, err)
	}
	return agreed, d.Failed, nil
}

// Revoke is for Recovery Report: it makes all that tasks call on this group fail with
// ErrRevoked, here and at all others, also what they wait in: so that those learn of a
// failure who would wait for tasks that have seen it. Agree and Shrink go on to work.
// With Replay nobody has to learn of failures: there it does nothing but warn.
func (t *Task) Revoke() {
	if !t.at().Revoke() {
		t.log.Warn("Revoke is for Recovery Report: ignored")
	}
}

// Shrink returns the same task in a group of those tasks that live, with ranks in the
// same order. All of them call it, and agree who they are. It works on a group that was
// revoked.
func (t *Task) Shrink(ctx context.Context) (*Task, error) {
	if err := t.given(ctx, "shrink"); err != nil {
		return nil, err
	}
	m, err := t.at().Shrink(ctx)
	if err != nil {
		return nil, t.failed("shrink", err)
	}
	return t.in(m), nil
}

// FailedAck returns the ranks of the group whose tasks are lost, as far as is known
// here: others may know of fewer or more. Agree tells what all agree on.
func (t *Task) FailedAck() []int { return t.at().Failed() }
