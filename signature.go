package coppice

import (
	"sync"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/fold"
	"github.com/coppice-go/coppice/protocol"
)

// functionSign is mixed into the signature of a reduction by a function, where others
// have their operator.
const functionSign = 1 << 32

// signName is the type, and the operator, that a signature is of, if they are among the
// usual ones: tasks tell each other signatures, and errors need names.
func signName(sign uint64) string { return signNames()[sign] }

var signNames = sync.OnceValue(func() map[uint64]string {
	names := map[uint64]string{}
	nameNumber[int](names)
	nameNumber[int8](names)
	nameNumber[int16](names)
	nameNumber[int32](names)
	nameNumber[int64](names)
	nameNumber[uint](names)
	nameNumber[uint8](names)
	nameNumber[uint16](names)
	nameNumber[uint32](names)
	nameNumber[uint64](names)
	nameNumber[float32](names)
	nameNumber[float64](names)
	nameNumber[complex64](names)
	nameNumber[complex128](names)
	nameType[bool](names)
	nameType[string](names)
	nameType[[]bool](names)
	nameType[[]string](names)
	return names
})

// nameNumber names calls with a number, and with slices of it.
func nameNumber[T Number](names map[uint64]string) {
	nameType[T](names)
	nameType[[]T](names)
}

// nameType names calls with a type: alone, with each operator, and with a function.
func nameType[T any](names map[uint64]string) {
	c, err := codec.For[T]()
	if err != nil {
		return
	}
	names[c.Signature()] = c.Name()
	for op := range fold.Ops() {
		names[protocol.Mix(c.Signature(), uint64(op))] = c.Name() + " with " + op.String()
	}
	names[protocol.Mix(c.Signature(), functionSign)] = c.Name() + " with a function"
}
