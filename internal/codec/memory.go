package codec

import (
	"unsafe"

	"github.com/coppice-go/coppice/internal/large"
)

// All unsafe code is here. It holds for any T whose only pointer, if any, is that of a string or of a
// slice whose elements have none: the garbage collector finds nothing in such memory, so it may be
// read, written and allocated as bytes. The codec of T decides which of the functions fits.

// alignMax is the strictest alignment of plain memory.
const alignMax = 8

// fixedBytes returns the bytes of *v.
func fixedBytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// textBytes returns the bytes of the string *v. They must not be written.
func textBytes[T any](v *T) []byte {
	s := *(*string)(unsafe.Pointer(v))
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// setText makes b the memory of the string *v.
func setText[T any](v *T, b []byte) {
	*(*string)(unsafe.Pointer(v)) = unsafe.String(unsafe.SliceData(b), len(b))
}

// header returns the slice *v as one with elements of another type: a slice is a pointer, a length and
// a capacity, whatever its elements are. Both numbers count the elements of T, so as a []byte it
// reaches no further than *v does.
func header[T any](v *T) *[]byte { return (*[]byte)(unsafe.Pointer(v)) }

// elemBytes returns the bytes of the slice *v, whose elements have the given size.
func elemBytes[T any](v *T, size int) []byte {
	s := *header(v)
	return unsafe.Slice(unsafe.SliceData(s), len(s)*size)
}

// setElems makes b, which is aligned for them, the memory of the slice *v with
// elements of the size given.
func setElems[T any](v *T, b []byte, size int) {
	*header(v) = unsafe.Slice(unsafe.SliceData(b), len(b)/size)
}

// aligned reports whether b begins at a multiple of align.
func aligned(b []byte, align int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(align) == 0
}

// cloneAligned copies b to memory that begins at a multiple of align. Append allocates memory that is
// not zeroed first, and in practice aligned; words are aligned by definition.
func cloneAligned(b []byte, align int) []byte {
	if c := large.Append(nil, b); aligned(c, align) {
		return c
	}
	words := make([]uint64, (len(b)+alignMax-1)/alignMax)
	c := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(b))
	copy(c, b)
	return c
}

// Overlap reports whether two pieces of memory have bytes in common.
func Overlap(a, b []byte) bool {
	if cap(a) == 0 || cap(b) == 0 {
		return false
	}
	from, to := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return from < to+uintptr(cap(b)) && to < from+uintptr(cap(a))
}
