package coppice

import (
	"context"
	"fmt"
	"math"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/node"
)

// Send sends v to a task, where Recv with the same tag gets it; messages with one
// tag arrive in the order they were sent. It returns as soon as v is copied, and
// waits only while more is under way than the job's LogBytes allow.
func Send[T any](ctx context.Context, t *Task, to, tag int, v T) error {
	_, err := perform(ctx, t, "send", nil, func(t *Task, _ settings) (none struct{}, err error) {
		c, err := codec.For[T]()
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

// Recv returns the next value that a task sent with a tag. There is no way to
// receive from any task, or any tag: a program run again must see the same.
func Recv[T any](ctx context.Context, t *Task, from, tag int) (v T, err error) {
	return perform(ctx, t, "recv", nil, func(t *Task, _ settings) (v T, err error) {
		c, err := codec.For[T]()
		if err == nil {
			err = checkTag(tag)
		}
		var r node.Result
		if err == nil {
			r, err = t.recv(ctx, from, tag, c.Signature(), c.Name())
		}
		if err == nil {
			err = c.Decode(r.Value, &v, !r.Shared)
		}
		return v, err
	})
}

func checkTag(tag int) error {
	if tag < 0 || tag > math.MaxInt32 {
		return fmt.Errorf("tag %d; allowed: 0 to %d", tag, math.MaxInt32)
	}
	return nil
}
