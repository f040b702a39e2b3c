package coppice

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/large"
	"github.com/coppice-go/coppice/internal/node"
)

// encode returns the bytes of a value, which must not change while they are used:
// where they are, if the memory is shared, else in dst, which grows as needed. They
// are never nil.
func encode[T any](c *codec.Codec[T], v *T, shared bool, dst []byte) (b []byte, err error) {
	ok := false
	if shared {
		if b, ok = c.Elements(v); !ok {
			w := *v // only now it is worth an allocation
			b, ok = c.View(&w)
		}
	}
	if !ok {
		b, err = c.Append(dst, v)
	}
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

// lends tells whether the values that a task passes may stay where they are until
// they are sent: they are shared, and the result does not go there.
func lends[T any](c *codec.Codec[T], s *settings, vs []T, into []T) bool {
	if !s.shared {
		return false
	}
	for i := range vs {
		b, ok := c.View(&vs[i])
		if ok && slices.ContainsFunc(into, func(dst T) bool { return codec.Overlap(b, c.Room(dst)) }) {
			return false
		}
	}
	return true
}

// encodeSmall is encode with memory that is used again by the next operation, as
// long as values are small: those are copied when they are sent.
func encodeSmall[T any](t *Task, c *codec.Codec[T], v *T, shared bool) ([]byte, error) {
	b, err := encode(c, v, shared, t.small[:0])
	if shared || err != nil {
		return b, err
	}
	t.small = nil
	if len(b) <= node.SmallMax {
		t.small = b
	}
	return b, nil
}

// encodeAll returns the bytes of several values, none of which is nil, and the size of the largest.
func encodeAll[T any](t *Task, c *codec.Codec[T], vs []T, shared bool) (all [][]byte, largest int, err error) {
	all = t.parts[:0]
	buf := t.small[:0]
	t.small, t.parts = nil, nil
	if !shared { // at once: to append one after the other would copy again and again
		sum := 0
		for i := range vs {
			sum += c.Len(&vs[i])
		}
		buf = large.Grow(buf, sum)
	}
	var few [32]int
	ends := few[:0]
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
	if buf == nil {
		buf = []byte{} // parts without bytes are not absent
	}
	at := 0
	for _, end := range ends {
		all, largest = append(all, buf[at:end:end]), max(largest, end-at)
		at = end
	}
	if len(buf) <= node.SmallMax {
		t.small = buf
	}
	t.parts = all
	return all, largest, nil
}

// do carries out an operation. What a task that gave up has given is not used
// again: the operation may still need it.
func (t *Task) do(ctx context.Context, c *node.Call) (node.Result, error) {
	r, err := t.carryOut(ctx, c)
	if err != nil {
		t.small, t.parts, t.word = nil, nil, nil
	}
	return r, err
}

func (t *Task) carryOut(ctx context.Context, c *node.Call) (node.Result, error) {
	if t.trunk.scripted() {
		return t.carryOutScripted(ctx, c)
	}
	return t.reallyCarryOut(ctx, c)
}

func (t *Task) reallyCarryOut(ctx context.Context, c *node.Call) (node.Result, error) {
	if c.Agreed {
		return t.at().DoAgreed(ctx, c)
	}
	return t.at().Do(ctx, c)
}

// wordMax is the size of the largest number.
const wordMax = 16

// numberRoom is memory for the result of a reduction of single numbers, from which
// it is copied at once.
func (t *Task) numberRoom() []byte {
	if t.word == nil {
		t.word = make([]byte, wordMax)
	}
	return t.word
}

// decode returns the value of a result.
func decode[T any](c *codec.Codec[T], r node.Result, s *settings) (v T, err error) {
	if s.into == nil {
		return v, c.Decode(r.Value, &v, !r.Shared || s.shared)
	}
	dst, err := given(c, s)
	if err != nil {
		return v, err
	}
	return c.DecodeInto(r.Value, dst)
}

// given is what Into has, which loses the name of a slice's type on the way.
func given[T any](c *codec.Codec[T], s *settings) (dst T, err error) {
	if dst, ok := s.into.(T); ok {
		return dst, nil
	}
	v, want := reflect.ValueOf(s.into), reflect.TypeFor[T]()
	if want.Kind() != reflect.Slice || want.Elem() != v.Type().Elem() {
		return dst, fmt.Errorf("Into has a %T, the operation a %s; allowed: the same", s.into, c.Name())
	}
	return v.Convert(want).Interface().(T), nil
}

// dst is the memory of Into, for an operation that results in one value: none, or
// one, put into room.
func dst[T any](c *codec.Codec[T], s *settings, room *[1]T) (into []T, err error) {
	if s.into == nil {
		return nil, nil
	}
	if room[0], err = given(c, s); err != nil {
		return nil, err
	}
	return room[:], nil
}

// rooms is memory of Into that the library may receive into, if it is shared. Small
// values are copied anyway.
func rooms[T any](c *codec.Codec[T], s *settings, into []T) (all [][]byte) {
	if !s.shared {
		return nil
	}
	for i := range into {
		if b := c.Room(into[i]); cap(b) > node.SmallMax {
			if all == nil {
				all = make([][]byte, len(into))
			}
			all[i] = b
		}
	}
	return all
}

// copies tells whether n results are copied out of the library's memory: to that of
// Into, or because they are of constant size.
func copies[T any](c *codec.Codec[T], into, n int) bool {
	_, fixed := c.Size()
	return fixed || into >= n
}

// only is the first of at most one.
func only(all [][]byte) []byte {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}
