package codec

import (
	"cmp"
	"encoding"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// This file refuses what CBOR would lose, as far as types show it.

var (
	timeType   = reflect.TypeFor[time.Time]()
	bigIntType = reflect.TypeFor[big.Int]()
)

// pair is two interfaces that belong together, with the names of their methods.
type pair struct {
	to, from         reflect.Type
	toName, fromName string
}

var (
	binaryMethods = pair{
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](),
		"MarshalBinary", "UnmarshalBinary",
	}
	cborMethods = pair{
		reflect.TypeFor[cbor.Marshaler](), reflect.TypeFor[cbor.Unmarshaler](),
		"MarshalCBOR", "UnmarshalCBOR",
	}
)

// both reports whether variables of a type have the methods of both.
func (p pair) both(t reflect.Type) bool { return p.has(t, p.to) && p.has(t, p.from) }

// has also looks at pointers: a method may have a pointer receiver.
func (pair) has(t, i reflect.Type) bool {
	return t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(i)
}

// whole reports whether a type is sent by methods or rules of its own, rather than part by part.
func whole(t reflect.Type) bool {
	return t == timeType || t == bigIntType || binaryMethods.both(t) || cborMethods.both(t)
}

const (
	allowedTypes = "numbers, bools, strings, and arrays, slices, maps, pointers and structs of them"
	allowedElse  = "exported fields; unexported ones in a struct of numbers and bools alone, that is no key of a map; or MarshalBinary with UnmarshalBinary"
)

// sendable checks a type that is not plain memory and returns the limits to check its values against.
func sendable(t reflect.Type) (limits, error) {
	w := walk{root: t, risky: limits{}, open: map[reflect.Type]bool{}}
	_, err := w.visit(t, "", false)
	return w.risky, err
}

// walk visits the types that a type is made of.
type walk struct {
	root  reflect.Type
	risky limits
	open  map[reflect.Type]bool // being visited
}

// visit checks a type found at a path, in the key of a map or elsewhere, and reports whether its values
// have to be checked too.
func (w *walk) visit(t reflect.Type, path string, key bool) (risky bool, err error) {
	if w.open[t] {
		return true, nil // a type inside itself: values may be a cycle
	}
	// Keys have rules of their own: what visit learns from keys holds for them alone.
	if risky, ok := w.risky[t]; ok && !key {
		return risky, nil
	}
	w.open[t] = true
	risky, err = w.inside(t, path, key)
	delete(w.open, t)
	if !key {
		w.risky[t] = risky
	}
	return risky, err
}

func (w *walk) inside(t reflect.Type, path string, key bool) (risky bool, err error) {
	if err := w.checkMethods(t, path); err != nil {
		return false, err
	}
	if whole(t) {
		if t == timeType && key {
			return false, w.refuse(path, t, "is no key: equal times differ in their zones' addresses", "an integer such as UnixNano")
		}
		return t == timeType, nil
	}
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		return key || t.Kind() == reflect.Float32, nil
	case reflect.Complex64, reflect.Complex128:
		return false, w.refuse(path, t, "has no form in CBOR", "a complex number, a []complex128, or a struct of numbers and bools alone")
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Uintptr:
		return false, w.refuse(path, t, "means nothing in another process", allowedTypes)
	case reflect.Interface:
		return false, w.refuse(path, t, "does not say which type to restore", allowedTypes)
	case reflect.Array, reflect.Slice:
		return w.visit(t.Elem(), path+"[]", key)
	case reflect.Map:
		return w.mapType(t, path)
	case reflect.Pointer:
		return w.pointer(t, path, key)
	case reflect.Struct:
		return w.fields(t, path, key, map[string]bool{})
	}
	return false, nil
}

// checkMethods refuses a type whose methods would send it only in part.
func (w *walk) checkMethods(t reflect.Type, path string) error {
	for _, p := range []pair{binaryMethods, cborMethods} {
		switch to, from := p.has(t, p.to), p.has(t, p.from); {
		case to && !from:
			return w.refuse(path, t, "has "+p.toName+" but not "+p.fromName, "both or neither")
		case from && !to:
			return w.refuse(path, t, "has "+p.fromName+" but not "+p.toName, "both or neither")
		}
	}
	if t.Kind() != reflect.Struct || t == timeType || t == bigIntType {
		return nil
	}
	// The methods of an embedded field are the struct's too, but ignore its other fields. CBOR leaves
	// out the unexported ones of an embedded big.Int.
	for f := range t.Fields() {
		alone := t.NumField() == 1 && whole(t)
		if f.Anonymous && !alone && (whole(f.Type) || f.Type.Kind() == reflect.Pointer && whole(f.Type.Elem()) || f.Type.Implements(binaryMethods.to)) {
			return w.refuse(join(path, f.Name), f.Type, "is embedded, and its methods would stand for the whole struct", "a field with a name")
		}
	}
	return nil
}

func (w *walk) mapType(t reflect.Type, path string) (risky bool, err error) {
	keyRisky, err := w.visit(t.Key(), path+"[key]", true)
	if err != nil {
		return false, err
	}
	risky, err = w.visit(t.Elem(), path+"[]", false)
	return risky || keyRisky, err
}

func (w *walk) pointer(t reflect.Type, path string, key bool) (risky bool, err error) {
	if key {
		return false, w.refuse(path, t, "is no key: it means nothing in another process", allowedTypes)
	}
	switch e := t.Elem(); e.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if !whole(e) {
			return false, w.refuse(path, t, "may point to nil, which would come back as a nil pointer", e.String())
		}
	}
	return w.visit(t.Elem(), path, false)
}

// fields checks the fields of a struct. CBOR knows them by name, embedded ones by the names of their
// own fields; it leaves out all that share a name.
func (w *walk) fields(t reflect.Type, path string, key bool, names map[string]bool) (risky bool, err error) {
	for f := range t.Fields() {
		if f.Name == "_" {
			continue
		}
		at := join(path, f.Name)
		name, err := w.fieldName(f, at)
		if err != nil {
			return false, err
		}
		r, err := false, error(nil)
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			r, err = w.embedded(f.Type, at, key, names)
		} else {
			name = cmp.Or(name, f.Name)
			if names[name] {
				return false, w.refuse(at, f.Type, "shares its name with another field", "different names")
			}
			names[name] = true
			r, err = w.visit(f.Type, at, key)
		}
		if err != nil {
			return false, err
		}
		risky = risky || r
	}
	return risky, nil
}

// embedded checks the fields of an embedded struct together with those around it.
func (w *walk) embedded(t reflect.Type, path string, key bool, names map[string]bool) (risky bool, err error) {
	if err := w.checkMethods(t, path); err != nil {
		return false, err
	}
	risky, err = w.fields(t, path, key, names)
	if !key {
		w.risky[t] = w.risky[t] || risky
	}
	return risky, err
}

// fieldName returns the name that a field's tag gives it, if any, and refuses fields that CBOR would
// leave out.
func (w *walk) fieldName(f reflect.StructField, path string) (string, error) {
	if !f.IsExported() {
		return "", w.refuse(path, f.Type, "is unexported and would be lost", allowedElse)
	}
	tag := cmp.Or(f.Tag.Get("cbor"), f.Tag.Get("json"))
	if tag == "-" {
		return "", w.refuse(path, f.Type, "is left out by its tag", `a tag for CBOR before that for JSON: cbor:"`+f.Name+`"`)
	}
	name, options, _ := strings.Cut(tag, ",")
	for option := range strings.SplitSeq(options, ",") {
		if n, err := strconv.Atoi(name); option == "keyasint" && err == nil {
			name = strconv.Itoa(n) // 01 is 1
		}
		if (option == "omitempty" || option == "omitzero") && !omittable(f.Type) {
			return "", w.refuse(path, f.Type, "is left out by its tag when it is empty, be it nil, zero or −0", `a tag for CBOR before that for JSON: cbor:"`+f.Name+`"`)
		}
	}
	if f.Anonymous && name == "" && f.Type.Kind() == reflect.Pointer {
		return "", w.refuse(path, f.Type, "is an embedded pointer", "a field with a name")
	}
	return name, nil
}

// omittable reports whether a type has exactly one empty value, its zero value.
func omittable(t reflect.Type) bool {
	isZero := reflect.TypeFor[interface{ IsZero() bool }]()
	if whole(t) || t.Implements(isZero) || reflect.PointerTo(t).Implements(isZero) {
		return false
	}
	k := t.Kind()
	return k >= reflect.Bool && k <= reflect.Uint64 || k == reflect.String || k == reflect.Pointer
}

func (w *walk) refuse(path string, t reflect.Type, why, allowed string) error {
	if path == "" {
		return fmt.Errorf("cannot send %v: it %s; allowed: %s", t, why, allowed)
	}
	return fmt.Errorf("cannot send %v: %s (%v) %s; allowed: %s", w.root, path, t, why, allowed)
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}
