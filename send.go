package coppice

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/coppice-go/coppice/internal/node"
)

// Send sends v to a task, where Recv with the same tag gets it; messages with one
// tag arrive in the order they were sent. It returns as soon as v is copied, and
// waits only while more is under way than the job's LogBytes allow.
func Send[T any](ctx context.Context, t *Task, to, tag int, v T) error {
	_, err := perform(ctx, t, "send", nil, func(t *Task, _ settings) (none struct{}, err error) {
		c, err := codecOf[T](t)
		if err == nil {
			err = checkTag(tag)
		}
		var b []byte
		if err == nil {
			b, err = encode(c, &v, false, nil)
		}
		if err == nil {
			err = t.send(ctx, to, tag, c.Signature(), c.Name(), b)
		}
		return none, err
	})
	return err
}

// Recv returns the next value that a task sent with a tag.
func Recv[T any](ctx context.Context, t *Task, from, tag int) (v T, err error) {
	return perform(ctx, t, "recv", nil, func(t *Task, _ settings) (v T, err error) {
		return received[T](ctx, t, tag, func() (int, error) { return from, nil })
	})
}

// RecvAny returns the next value that any other task of the group sent with a tag, and the rank of that task. Which one it is
// may differ from run to run; if the task is run again, it is the same: the choice is kept at other processes, as
// [Once] does it, before RecvAny returns. So it takes as long as a Once and a Recv.
func RecvAny[T any](ctx context.Context, t *Task, tag int) (v T, from int, err error) {
	v, err = perform(ctx, t, "recvany", nil, func(t *Task, _ settings) (v T, err error) {
		return received[T](ctx, t, tag, func() (_ int, err error) {
			from, err = t.anyRank(ctx, tag)
			return from, err
		})
	})
	return v, from, err
}

// received returns the next value with a tag of the task that whom says.
func received[T any](ctx context.Context, t *Task, tag int, whom func() (rank int, err error)) (v T, err error) {
	c, err := codecOf[T](t)
	if err == nil {
		err = checkTag(tag)
	}
	var from int
	if err == nil {
		from, err = whom()
	}
	var r node.Result
	if err == nil {
		r, err = t.recv(ctx, from, tag, c.Signature(), c.Name())
	}
	if err == nil {
		err = c.Decode(r.Value, &v, !r.Shared)
	}
	return v, err
}

// anyRank is the rank of a task of which there is a message; the same if the task is run again.
func (t *Task) anyRank(ctx context.Context, tag int) (rank int, err error) {
	ask := func() ([]byte, error) {
		rank, err := t.at().Any(ctx, tag)
		return binary.LittleEndian.AppendUint32(nil, uint32(rank)), err
	}
	var own []byte
	if !t.m.Replays() {
		own, err = ask()
	} else {
		var b []byte
		var kept bool
		b, kept, err = t.once(ctx, anySign, nil, func() (_ []byte, err error) {
			own, err = ask()
			return own, err
		})
		if kept {
			own = b
		}
	}
	if err == nil && len(own) != 4 {
		err = fmt.Errorf("what was kept has %d bytes; allowed: 4", len(own))
	}
	if err != nil {
		return 0, err
	}
	return int(binary.LittleEndian.Uint32(own)), nil
}

// anySign is the signature of a choice.
const anySign = 0x616e79

func checkTag(tag int) error {
	if tag < 0 || tag > math.MaxInt32 {
		return fmt.Errorf("tag %d; allowed: 0 to %d", tag, math.MaxInt32)
	}
	return nil
}
