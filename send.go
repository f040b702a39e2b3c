package coppice

import (
	"context"
	"fmt"
	"math"

	"github.com/coppice-go/coppice/internal/codec"
)

// Send sends v to a task, where Recv with the same tag gets it; messages with one
// tag arrive in the order they were sent. It returns as soon as v is copied, and
// waits only while more is under way than the job's LogBytes allow.
func Send[T any](ctx context.Context, t *Task, to, tag int, v T) error {
	if err := t.given(ctx, "send"); err != nil {
		return err
	}
	c, err := codec.For[T]()
	if err == nil {
		err = checkTag(tag)
	}
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	b, err := c.Append(nil, &v)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if b == nil {
		b = []byte{}
	}
	return t.failed("send", t.at().Send(ctx, to, tag, c.Signature(), b))
}

// Recv returns the next value that a task sent with a tag. There is no way to
// receive from any task, or any tag: a program run again must see the same.
func Recv[T any](ctx context.Context, t *Task, from, tag int) (v T, err error) {
	if err := t.given(ctx, "recv"); err != nil {
		return v, err
	}
	c, err := codec.For[T]()
	if err == nil {
		err = checkTag(tag)
	}
	if err != nil {
		return v, fmt.Errorf("recv: %w", err)
	}
	r, err := t.at().Recv(ctx, from, tag, c.Signature(), c.Name())
	if err != nil {
		return v, t.failed("recv", err)
	}
	if err := c.Decode(r.Value, &v, !r.Shared); err != nil {
		return v, fmt.Errorf("recv: %w", err)
	}
	return v, nil
}

func checkTag(tag int) error {
	if tag < 0 || tag > math.MaxInt32 {
		return fmt.Errorf("tag %d; allowed: 0 to %d", tag, math.MaxInt32)
	}
	return nil
}
