package coppice

import (
	"context"

	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol"
)

// Agree combines the values of all tasks with f, as [AllReduceFunc] does, and gives all
// of them the same: who returns knows that all others return the same, or have died.
//
// With Recovery [Report] it goes on without the dead: failed lists the ranks whose values
// are not in it, and is the same for all, too. With Replay there are none.
//
// The end of the context is a vote to abort. If it comes in time, all get [ErrAborted];
// otherwise the decision, for which the call waits as long as Job.Silence before it
// gives up the group with [ErrAbandoned].
//
// Agree works on a group that was revoked.
func Agree[T any](ctx context.Context, t *Task, v T, f func(a, b T) T) (agreed T, failed []int, err error) {
	agreed, err = perform(ctx, t, "agree", nil, func(t *Task, _ settings) (agreed T, err error) {
		c, err := codecOf[T](t)
		if err == nil && f == nil {
			err = errNoFunction
		}
		if err != nil {
			return agreed, err
		}
		call := node.Call{Sign: protocol.Mix(c.Signature(), 1<<33), Type: c.Name(), Works: true, Kind: combining(c, f)}
		var d node.Decision
		if call.Value, err = encode(c, &v, false, nil); err == nil {
			d, err = t.agree(ctx, call)
		}
		if err == nil {
			err = c.Decode(d.Value, &agreed, false)
		}
		failed = d.Failed
		return agreed, err
	})
	return agreed, failed, err
}

// Revoke is for Recovery [Report]: it makes all that tasks call on this group fail with
// [ErrRevoked], here and at all others, also what they wait in: so that those learn of a
// failure who would wait for tasks that have seen it. Agree and Shrink go on to work.
// With Replay nobody has to learn of failures: there it does nothing but warn.
func (t *Task) Revoke() {
	if !t.no() && t.trunk.rehearsal == nil && !t.at().Revoke() {
		t.log.Warn("Revoke is for Recovery Report: ignored")
	}
}

// Shrink returns the same task in a group of those tasks that live, with ranks in the
// same order. All of them call it, and agree who they are. It works on a group that was
// revoked.
func (t *Task) Shrink(ctx context.Context) (*Task, error) {
	return perform(ctx, t, "shrink", nil, func(t *Task, _ settings) (*Task, error) {
		if t.trunk.scripted() {
			r := t.script(callRecord{op: "shrink"}, func() (r callResult) { r.made, r.err = t.at().Shrink(ctx); return r })
			return t.in(r.made), r.err
		}
		m, err := t.at().Shrink(ctx)
		return t.in(m), err
	})
}

// FailedAck returns the ranks of the group whose tasks are lost, as far as is known
// here: others may know of fewer or more. Agree tells what all agree on.
func (t *Task) FailedAck() []int {
	if t.no() {
		return nil
	}
	return t.at().Failed()
}
