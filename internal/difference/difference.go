// Package difference says in words where two values differ.
package difference

import (
	"fmt"
	"math"
	"math/cmplx"
	"reflect"
)

// Of says where two values of one type differ first, and how; "": they do not. before says when the value was want.
func Of(want, got any, before string) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	c := comparison{before: before, followed: map[[2]uintptr]bool{}}
	return c.differ("", reflect.ValueOf(want), reflect.ValueOf(got)) // NaNs differ from themselves for DeepEqual only
}

// comparison is one of two values.
type comparison struct {
	before   string
	followed map[[2]uintptr]bool // pairs of pointers: values may refer to themselves
}

// differ is Of for the part of a value that path leads to.
func (c *comparison) differ(path string, want, got reflect.Value) string {
	both := func() string {
		if path == "" {
			return fmt.Sprintf("%v; %s %v", show(got), c.before, show(want))
		}
		return fmt.Sprintf("%s is %v; %s %v", path, show(got), c.before, show(want))
	}
	if want.IsValid() != got.IsValid() || want.IsValid() && want.Type() != got.Type() {
		return both()
	}
	if !want.IsValid() {
		return ""
	}
	switch want.Kind() {
	case reflect.Slice, reflect.Array:
		if want.Kind() == reflect.Slice && want.IsNil() != got.IsNil() || want.Len() != got.Len() {
			return both()
		}
		for i := range want.Len() {
			if d := c.differ(fmt.Sprintf("%s[%d]", path, i), want.Index(i), got.Index(i)); d != "" {
				return d
			}
		}
	case reflect.Struct:
		for i := range want.NumField() {
			if d := c.differ(path+"."+want.Type().Field(i).Name, want.Field(i), got.Field(i)); d != "" {
				return d
			}
		}
	case reflect.Map:
		if want.IsNil() != got.IsNil() {
			return both()
		}
		for _, k := range append(want.MapKeys(), got.MapKeys()...) {
			if d := c.differ(fmt.Sprintf("%s[%v]", path, show(k)), want.MapIndex(k), got.MapIndex(k)); d != "" {
				return d
			}
		}
	case reflect.Pointer, reflect.Interface:
		if want.IsNil() != got.IsNil() {
			return both()
		}
		if want.IsNil() {
			return ""
		}
		if want.Kind() == reflect.Pointer {
			pair := [2]uintptr{want.Pointer(), got.Pointer()}
			if c.followed[pair] {
				return ""
			}
			c.followed[pair] = true
		}
		return c.differ(path, want.Elem(), got.Elem())
	case reflect.Float32, reflect.Float64:
		if a, b := want.Float(), got.Float(); a != b && !(math.IsNaN(a) && math.IsNaN(b)) {
			return both()
		}
	case reflect.Complex64, reflect.Complex128:
		if a, b := want.Complex(), got.Complex(); a != b && !(cmplx.IsNaN(a) && cmplx.IsNaN(b)) {
			return both()
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer: // of no use to others
	default:
		if !want.Equal(got) {
			return both()
		}
	}
	return ""
}

// show is a value in a line: short, also if it is large.
func show(v reflect.Value) string {
	if !v.IsValid() {
		return "nothing"
	}
	text := fmt.Sprintf("%+v", v)
	if v.Kind() == reflect.String {
		text = fmt.Sprintf("%q", v.String())
	}
	if len(text) > showMax {
		text = text[:showMax] + "…"
	}
	return text
}

// showMax is how many bytes of a value are shown.
const showMax = 200
