package coppice

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/runtime"
)

// encode returns the bytes of a value, which must not change while they are used:
// where they are, if the memory is shared, else in dst, which grows as needed. They
// are never nil.
func encode[T any](c *codec.Codec[T], v *T, shared bool, dst []byte) (b []byte, err error) {
	ok := false
	if shared {
		w := *v // only now it is worth an allocation
		b, ok = c.View(&w)
	}
	if !ok {
		b, err = c.Append(dst, v)
	}
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

// encodeSmall is encode with memory that is used again by the next operation, as
// long as values are small: those are copied when they are sent.
func encodeSmall[T any](t *Task, c *codec.Codec[T], v *T, shared bool) ([]byte, error) {
	b, err := encode(c, v, shared, t.small[:0])
	if shared || err != nil {
		return b, err
	}
	t.small = nil
	if len(b) <= runtime.SmallMax {
		t.small = b
	}
	return b, nil
}

// encodeAll returns the bytes of several values, and the size of the largest.
func encodeAll[T any](t *Task, c *codec.Codec[T], vs []T, shared bool) (all [][]byte, largest int, err error) {
	all = t.parts[:0]
	buf := t.small[:0]
	t.small, t.parts = nil, nil
	var ends []int
	for i := range vs {
		if shared {
			if b, ok := c.View(&vs[i]); ok {
				if b == nil {
					b = []byte{}
				}
				all, largest = append(all, b), max(largest, len(b))
				continue
			}
		}
		if buf, err = c.Append(buf, &vs[i]); err != nil {
			return nil, 0, err
		}
		ends = append(ends, len(buf))
	}
	at := 0
	for _, end := range ends {
		all, largest = append(all, buf[at:end:end]), max(largest, end-at)
		at = end
	}
	if len(buf) <= runtime.SmallMax {
		t.small = buf
	}
	t.parts = all
	return all, largest, nil
}

// do carries out an operation. What a task that gave up has given is not used
// again: the operation may still need it.
func (t *Task) do(ctx context.Context, c runtime.Call) (runtime.Result, error) {
	r, err := t.m.Do(ctx, c)
	if err != nil {
		t.small, t.parts = nil, nil
	}
	return r, err
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

// room is memory of Into that the library may receive into: it is shared, and not
// where the task's own value is, which may still have to be sent.
func room[T any](c *codec.Codec[T], s *settings, own []byte) ([]byte, error) {
	if s.into == nil || !s.shared {
		return nil, nil
	}
	dst, ok := s.into.(T)
	if !ok {
		return nil, fmt.Errorf("Into has a %T, the operation a %s; allowed: the same", s.into, c.Name())
	}
	b := c.Room(dst)
	if codec.Overlap(b, own) {
		return nil, nil
	}
	return b, nil
}

// rooms is the same for several values. Small ones are copied anyway.
func rooms[T any](c *codec.Codec[T], into []T, own [][]byte) (all [][]byte) {
	for i, dst := range into {
		b := c.Room(dst)
		if cap(b) <= runtime.SmallMax || slices.ContainsFunc(own, func(o []byte) bool { return codec.Overlap(b, o) }) {
			continue
		}
		if all == nil {
			all = make([][]byte, len(into))
		}
		all[i] = b
	}
	return all
}
