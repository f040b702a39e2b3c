package codec

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// depthMax bounds the depth of a value, such as the number of nodes of a list. A cycle is deeper than
// any bound.
const depthMax = 10_000

var (
	encMode = must(encOptions().UserBufferEncMode())
	decMode = must(decOptions().DecMode())
)

func encOptions() cbor.EncOptions {
	o := cbor.CoreDetEncOptions()
	o.NaNConvert = cbor.NaNConvertNone // keep their bits
	o.Time = cbor.TimeRFC3339Nano      // the only form with zone and nanoseconds
	o.TimeTag = cbor.EncTagRequired
	return o
}

func decOptions() cbor.DecOptions {
	return cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		TimeTag:           cbor.DecTagRequired,
		MaxNestedLevels:   65535, // depthMax with tags fits; the most there is
		MaxArrayElements:  math.MaxInt32,
		MaxMapPairs:       math.MaxInt32,
		IndefLength:       cbor.IndefLengthForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8DecodeInvalid, // a string of Go may hold any bytes
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
	}
}

// must panics on an error of options that are constant.
func must[M any](m M, err error) M {
	if err != nil {
		panic(err)
	}
	return m
}

// limits holds the types with values that would come back changed, or that an encoder would never
// finish.
type limits map[reflect.Type]bool

// check refuses such values. It looks only where they can occur.
func (l limits) check(v reflect.Value, depth int) error {
	t := v.Type()
	switch {
	case !l[t]:
		return nil
	case depth > depthMax:
		return fmt.Errorf("nested deeper than %d; allowed: less, without cycles", depthMax)
	case t == timeType:
		return checkTime(v.Interface().(time.Time))
	}
	switch t.Kind() {
	case reflect.Float32:
		return checkFloat32(v)
	case reflect.Pointer:
		return l.checkPointer(v, depth)
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			if err := l.check(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		return l.checkMap(v, depth)
	case reflect.Struct:
		return l.checkFields(v, depth)
	}
	return nil
}

func (l limits) checkFields(v reflect.Value, depth int) error {
	for _, f := range v.Fields() {
		if !f.CanInterface() {
			continue // blank: not sent
		}
		if err := l.check(f, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (l limits) checkPointer(v reflect.Value, depth int) error {
	if v.IsNil() {
		return nil
	}
	if v.Type().Elem() == timeType && v.Elem().Interface().(time.Time).IsZero() {
		return errors.New("a pointer to the zero time would come back as nil; allowed: nil, or another time")
	}
	return l.check(v.Elem(), depth)
}

func (l limits) checkMap(v reflect.Value, depth int) error {
	for key, elem := range v.Seq2() {
		// Several NaNs in a map have no order.
		if !key.Equal(key) {
			return errors.New("NaN is a key; allowed: other numbers")
		}
		if err := l.check(elem, depth+1); err != nil {
			return err
		}
	}
	return nil
}

var float32Type = reflect.TypeFor[float32]()

// checkFloat32 refuses signaling NaNs: reflection, and with it CBOR, converts to float64, and that
// conversion makes them quiet.
func checkFloat32(v reflect.Value) error {
	const quiet = 1 << 22
	if f := v.Float(); f == f {
		return nil
	}
	if bits := math.Float32bits(v.Convert(float32Type).Interface().(float32)); bits&quiet == 0 {
		return fmt.Errorf("a float32 is a signaling NaN (%#x); allowed: quiet ones", bits)
	}
	return nil
}

// checkTime refuses what RFC 3339 cannot write. Times outside of structures use their methods, but
// those lose something too: UnmarshalBinary reads the odd seconds of a negative offset as positive
// ones. One rule holds for both.
func checkTime(t time.Time) error {
	if y := t.Year(); y < 0 || y > 9999 {
		return fmt.Errorf("a time in year %d; allowed: 0 to 9999", y)
	}
	if _, offset := t.Zone(); offset%60 != 0 {
		return fmt.Errorf("a time with a zone offset of %v; allowed: whole minutes, such as those of UTC()", time.Duration(offset)*time.Second)
	}
	return nil
}
