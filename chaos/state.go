package chaos

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"reflect"
)

// States are usually plain values: an assignment copies them and == compares them. A state that holds
// pointers, slices or maps implements two methods instead.

// Cloner is implemented by states that an assignment does not copy.
type Cloner[S any] interface {
	Clone() S
}

// Fingerprinter is implemented by states and messages that == does not compare. Equal values have the same
// fingerprint; different values have different ones, for all practical purposes.
type Fingerprinter interface {
	Fingerprint() [2]uint64
}

// clone copies a state.
func clone[S any](s *S) S {
	if c, ok := any(s).(Cloner[S]); ok {
		return c.Clone()
	}
	return *s
}

// fingerprint stands for a value: 128 bits, so that among 10⁷ states two different ones share it with
// probability 10⁻²⁵.
type fingerprint struct{ a, b uint64 }

// with folds x into the fingerprint; the order matters.
func (f fingerprint) with(x uint64) fingerprint {
	return fingerprint{mix(f.a ^ x), mix(f.b + x*golden)}
}

// and folds another fingerprint in.
func (f fingerprint) and(g fingerprint) fingerprint {
	return fingerprint{mix(f.a ^ g.a), mix(f.b + g.b*golden)}
}

// compare puts fingerprints in an arbitrary but fixed order.
func (f fingerprint) compare(g fingerprint) int {
	return cmp.Or(cmp.Compare(f.a, g.a), cmp.Compare(f.b, g.b))
}

var printSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// printOf returns the fingerprint of a state or a message.
func printOf[T any](v *T) fingerprint {
	if f, ok := any(v).(Fingerprinter); ok {
		p := f.Fingerprint()
		return fingerprint{p[0], p[1]}
	}
	boxed := any(*v)
	return fingerprint{maphash.Comparable(printSeeds[0], boxed), maphash.Comparable(printSeeds[1], boxed)}
}

// printable returns an error if values of type T cannot be compared or, if copied is set, not copied.
func printable[T any](what string, copied bool) error {
	var v *T
	if _, ok := any(v).(Fingerprinter); ok {
		if _, ok := any(v).(Cloner[T]); ok || !copied || isPlain(reflect.TypeFor[T]()) {
			return nil
		}
		return fmt.Errorf("chaos: %s %T holds references and needs a method Clone", what, *new(T))
	}
	if !isPlain(reflect.TypeFor[T]()) {
		return fmt.Errorf("chaos: %s %T holds references and needs a method Fingerprint", what, *new(T))
	}
	return nil
}

// isPlain reports whether == on values of type t compares everything.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Chan, reflect.Func, reflect.Interface, reflect.UnsafePointer:
		return false
	case reflect.Array:
		return isPlain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !isPlain(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}
