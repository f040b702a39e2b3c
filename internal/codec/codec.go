package codec

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"sync"

	"github.com/coppice-go/coppice/internal/large"
)

// Codec turns values of type T into bytes and back. It may be used by any number
// of goroutines.
type Codec[T any] struct {
	name      string
	signature uint64
	form      form
	memory    *layout // of T, or of its elements if it is a slice
	padded    bool    // memory has gaps
	limits    limits  // of T, unless it is plain memory
	err       error   // why T cannot be sent
}

// form is how a type turns into bytes.
type form uint8

const (
	fixed      form = iota // plain memory of constant size
	slice                  // a slice of plain memory
	text                   // a string
	methods                // MarshalBinary and UnmarshalBinary
	structured             // CBOR
)

// codecs holds a *Codec[T] for every T that For was called with.
var codecs sync.Map // of reflect.Type

// For returns the codec of T, or an error that says why values of type T cannot be sent.
func For[T any]() (*Codec[T], error) {
	t := reflect.TypeFor[T]()
	found, ok := codecs.Load(t)
	if !ok {
		found, _ = codecs.LoadOrStore(t, newCodec[T](t))
	}
	c := found.(*Codec[T])
	if c.err != nil {
		return nil, c.err
	}
	return c, nil
}

// Value returns the value of a type whose bytes are b, if a codec of this name has been used.
func Value(name string, b []byte) (v any, ok bool) {
	for _, c := range codecs.Range {
		if c := c.(interface {
			valueOf(name string, b []byte) (any, bool)
		}); !ok {
			v, ok = c.valueOf(name, b)
		}
	}
	return v, ok
}

// valueOf is Value, if the codec has this name.
func (c *Codec[T]) valueOf(name string, b []byte) (any, bool) {
	var v T
	if c.name != name || c.err != nil || c.Decode(b, &v, false) != nil {
		return nil, false
	}
	return v, true
}

func newCodec[T any](t reflect.Type) *Codec[T] {
	c := &Codec[T]{name: t.String(), signature: signature(t)}
	c.choose(t)
	c.padded = c.memory != nil && !c.memory.dense()
	return c
}

// choose finds the form of T.
func (c *Codec[T]) choose(t reflect.Type) {
	if l, ok := plain(t); ok {
		c.form, c.memory = fixed, l
		return
	}
	if t.Kind() == reflect.String {
		c.form, c.memory = text, &layout{size: 1, align: 1}
		return
	}
	// Elements of size 0 leave no bytes to count them by.
	if t.Kind() == reflect.Slice && t.Elem().Size() > 0 {
		if l, ok := plain(t.Elem()); ok {
			c.form, c.memory = slice, l
			return
		}
	}
	c.form = structured
	if binaryMethods.both(t) {
		c.form = methods
	}
	c.limits, c.err = sendable(t)
}

// Name is the name of T, as in "[]float64".
func (c *Codec[T]) Name() string { return c.name }

// Signature returns a hash of T's name and structure, the same in all processes of a build.
func (c *Codec[T]) Signature() uint64 { return c.signature }

// ElemSize is the size in bytes of T's elements if T is a string or a slice of
// plain memory, and 0 if it is something else. Values of such a T have as many
// bytes as their elements together.
func (c *Codec[T]) ElemSize() int {
	if c.form == slice || c.form == text {
		return c.memory.size
	}
	return 0
}

// Size is the number of bytes of every value of T if T is plain memory of constant
// size; ok is false if it is something else.
func (c *Codec[T]) Size() (size int, ok bool) {
	if c.form == fixed {
		return c.memory.size, true
	}
	return 0, false
}

// View returns the bytes of *v in place, if T is plain memory without padding. They equal what Append
// would add, must not be written, and are valid while *v lives and is unchanged.
func (c *Codec[T]) View(v *T) (b []byte, ok bool) {
	if c.form > text || c.padded {
		return nil, false
	}
	return c.bytes(v), true
}

// Elements is View for slices and strings, which are lent without *v itself: v need not be on the heap. Of other types it
// returns false.
func (c *Codec[T]) Elements(v *T) (b []byte, ok bool) {
	switch {
	case c.padded:
	case c.form == slice:
		return elemBytes(v, c.memory.size), true
	case c.form == text:
		return textBytes(v), true
	}
	return nil, false
}

// Len returns how many bytes Append adds if T is plain memory, and otherwise 0: unknown.
func (c *Codec[T]) Len(v *T) int {
	if c.form > text {
		return 0
	}
	return len(c.bytes(v))
}

// bytes returns the bytes of *v in place, padding included. T is plain memory.
func (c *Codec[T]) bytes(v *T) []byte {
	switch c.form {
	case fixed:
		return fixedBytes(v)
	case slice:
		return elemBytes(v, c.memory.size)
	default:
		return textBytes(v)
	}
}

// Append adds the bytes of *v to dst. After an error it returns dst as it was.
func (c *Codec[T]) Append(dst []byte, v *T) ([]byte, error) {
	if c.form > text {
		w := *v // so that plain memory need not be on the heap
		b, err := c.appendParts(dst, &w)
		if err != nil {
			return dst, fmt.Errorf("sending %s: %w", c.name, err)
		}
		return b, nil
	}
	at := len(dst)
	dst = large.Append(dst, c.bytes(v))
	if c.padded {
		c.memory.zeroGaps(dst[at:])
	}
	return dst, nil
}

// appendParts adds the bytes of *v, which is not plain memory.
func (c *Codec[T]) appendParts(dst []byte, v *T) ([]byte, error) {
	if err := c.limits.check(reflect.ValueOf(v).Elem(), 0); err != nil {
		return nil, err
	}
	if c.form == methods {
		b, err := any(v).(encoding.BinaryMarshaler).MarshalBinary()
		return append(dst, b...), err
	}
	buf := bytes.NewBuffer(dst)
	err := encMode.MarshalToBuffer(v, buf)
	return buf.Bytes(), err
}

// Decode sets *v to the value whose bytes are b. With adopt, *v may keep b as its memory, and nobody
// else may use b from now on; Decode keeps b if T is a string or a slice of plain memory and b is
// aligned for the elements, to 8 bytes at most. After an error *v is unchanged.
func (c *Codec[T]) Decode(b []byte, v *T, adopt bool) error {
	if err := c.check(b); err != nil {
		return err
	}
	switch c.form {
	case fixed:
		copy(fixedBytes(v), b)
		return nil
	case slice, text:
		c.decodeElems(b, v, adopt)
		return nil
	}
	// Decode into a variable of its own: methods and CBOR may add to what is there, and stop halfway.
	fresh := new(T)
	err := c.decodeFresh(b, fresh)
	if err != nil {
		return fmt.Errorf("receiving %s: %w", c.name, err)
	}
	*v = *fresh
	return nil
}

func (c *Codec[T]) decodeElems(b []byte, v *T, adopt bool) {
	if len(b) == 0 {
		var none T
		*v = none
		return
	}
	if !adopt || !aligned(b, c.memory.align) {
		b = cloneAligned(b, c.memory.align)
	}
	if c.form == text {
		setText(v, b)
	} else {
		setElems(v, b, c.memory.size)
	}
}

func (c *Codec[T]) decodeFresh(b []byte, v *T) error {
	if c.form == methods {
		return any(v).(encoding.BinaryUnmarshaler).UnmarshalBinary(b)
	}
	return decMode.Unmarshal(b, v)
}

// DecodeInto returns the value whose bytes are b. If T is a slice of plain memory
// and dst has the capacity, the value is in dst's memory; b stays the caller's.
func (c *Codec[T]) DecodeInto(b []byte, dst T) (T, error) {
	if c.form != slice || len(b) > cap(*header(&dst))*c.memory.size {
		err := c.Decode(b, &dst, false)
		return dst, err
	}
	if err := c.check(b); err != nil {
		return dst, err
	}
	h := header(&dst)
	*h = (*h)[:len(b)/c.memory.size]
	if to := elemBytes(&dst, c.memory.size); len(b) > 0 && &to[0] != &b[0] { // it may be there already
		large.Copy(to, b)
	}
	return dst, nil
}

// Room returns the memory of dst, up to its capacity, for values to be received into; nil if T is not a
// slice of plain memory in which all bits count.
func (c *Codec[T]) Room(dst T) []byte {
	if c.form != slice || !c.memory.uniform() {
		return nil
	}
	h := header(&dst)
	*h = (*h)[:cap(*h)]
	return elemBytes(&dst, c.memory.size)
}

// Count returns how many elements a value of length bytes has. T is a string or a slice of plain
// memory.
func (c *Codec[T]) Count(length int) (int, error) {
	size := c.ElemSize()
	switch {
	case size == 0:
		return 0, fmt.Errorf("receiving %s: not a slice of plain memory", c.name)
	case length%size != 0:
		return 0, fmt.Errorf("receiving %s: %d bytes; allowed: a multiple of %d", c.name, length, size)
	}
	return length / size, nil
}

// check returns an error if T is plain memory and b cannot be the bytes of a T.
func (c *Codec[T]) check(b []byte) error {
	switch c.form {
	case fixed:
		if len(b) != c.memory.size {
			return fmt.Errorf("receiving %s: %d bytes; allowed: %d", c.name, len(b), c.memory.size)
		}
	case slice:
		if _, err := c.Count(len(b)); err != nil {
			return err
		}
	default:
		return nil
	}
	if err := c.memory.checkBools(b); err != nil {
		return fmt.Errorf("receiving %s: %w", c.name, err)
	}
	return nil
}
