// Package fold combines numbers, and slices of numbers element by element, as the
// bytes they are in memory.
package fold

import (
	"fmt"
	"iter"
	"reflect"
	"strings"
	"unsafe"

	"github.com/coppice-go/coppice/internal/large"
)

// Op is a way to combine two numbers.
type Op uint8

// The operations. And, Or and Xor are for integers, Min and Max for ordered numbers; if one operand of
// Min or Max is NaN, the result is NaN.
const (
	Sum Op = iota
	Product
	Min
	Max
	And
	Or
	Xor
	ops
)

var opNames = [ops]string{"sum", "product", "min", "max", "and", "or", "xor"}

func (o Op) String() string {
	if o < ops {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Ops yields all operations.
func Ops() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for op := Op(0); op < ops && yield(op); op++ {
		}
	}
}

// Func combines values of the same length, element by element, and returns the result: in dst if dst
// has that length. dst may be left or right.
type Func func(dst, left, right []byte) ([]byte, error)

// For returns the function that combines numbers of a kind. exact reports whether the result is the
// same in any order and association.
func For(op Op, kind reflect.Kind) (f Func, exact bool, err error) {
	if op >= ops {
		return nil, false, fmt.Errorf("operation %d; allowed: %v", uint8(op), opNames)
	}
	row, ok := table[kind]
	if !ok {
		return nil, false, fmt.Errorf("%v of %v; allowed: numbers", op, kind)
	}
	if f = row[op]; f == nil {
		return nil, false, fmt.Errorf("%v of %v; allowed: %s", op, kind, possible(row))
	}
	switch kind {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return f, op == Min || op == Max, nil
	}
	return f, true, nil
}

func possible(row [ops]Func) string {
	var names []string
	for op, f := range row {
		if f != nil {
			names = append(names, opNames[op])
		}
	}
	return strings.Join(names, ", ")
}

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

type ordered interface{ integer | ~float32 | ~float64 }

type number interface {
	ordered | ~complex64 | ~complex128
}

// table has a row for every kind of number.
var table = map[reflect.Kind][ops]Func{
	reflect.Int: wholes[int64](), reflect.Int8: wholes[int8](), reflect.Int16: wholes[int16](),
	reflect.Int32: wholes[int32](), reflect.Int64: wholes[int64](),
	reflect.Uint: wholes[uint64](), reflect.Uintptr: wholes[uint64](), reflect.Uint8: wholes[uint8](),
	reflect.Uint16: wholes[uint16](), reflect.Uint32: wholes[uint32](), reflect.Uint64: wholes[uint64](),
	reflect.Float32: reals[float32](), reflect.Float64: reals[float64](),
	reflect.Complex64: numbers[complex64](), reflect.Complex128: numbers[complex128](),
}

func numbers[E number]() (row [ops]Func) {
	row[Sum] = over(func(dst, a, b []E) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	})
	row[Product] = over(func(dst, a, b []E) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	})
	return row
}

func reals[E ordered]() [ops]Func {
	row := numbers[E]()
	row[Min] = over(func(dst, a, b []E) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = min(a[i], b[i])
		}
	})
	row[Max] = over(func(dst, a, b []E) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = max(a[i], b[i])
		}
	})
	return row
}

func wholes[E integer]() [ops]Func {
	row := reals[E]()
	row[And] = over(func(dst, a, b []E) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = a[i] & b[i]
		}
	})
	row[Or] = over(func(dst, a, b []E) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = a[i] | b[i]
		}
	})
	row[Xor] = over(func(dst, a, b []E) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = a[i] ^ b[i]
		}
	})
	return row
}

// over makes a Func from a loop over numbers.
func over[E number](loop func(dst, a, b []E)) Func {
	size := int(unsafe.Sizeof(*new(E)))
	return func(dst, left, right []byte) ([]byte, error) {
		if len(left) != len(right) || len(left)%size != 0 {
			return nil, fmt.Errorf("values of %d and %d bytes cannot be combined", len(left), len(right))
		}
		if len(dst) != len(left) {
			dst = large.New(len(left))
		}
		out, a, b := cast[E](dst), cast[E](left), cast[E](right)
		loop(out, a, b)
		if len(out) > 0 && unsafe.Pointer(&out[0]) != unsafe.Pointer(&dst[0]) {
			copy(dst, bytesOf(out))
		}
		return dst, nil
	}
}

// cast returns b as numbers: in place or, if b is not aligned for them, as a copy.
func cast[E number](b []byte) []E {
	size := int(unsafe.Sizeof(*new(E)))
	if len(b) == 0 {
		return nil
	}
	if uintptr(unsafe.Pointer(&b[0]))%unsafe.Alignof(*new(E)) == 0 {
		return unsafe.Slice((*E)(unsafe.Pointer(&b[0])), len(b)/size)
	}
	c := make([]E, len(b)/size)
	copy(bytesOf(c), b)
	return c
}

func bytesOf[E number](s []E) []byte {
	size := int(unsafe.Sizeof(*new(E)))
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*size)
}
