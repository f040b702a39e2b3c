package codec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/codec"

	"pgregory.net/rapid"
)

type (
	point  struct{ x, y float64 } // unexported, and yet plain memory
	padded struct {
		a bool
		b int64
		_ int16
		c int8
	}
	nested struct {
		P [3]padded
		F [2]bool
		Z [0]int64
	}
	named  []point
	title  string
	kmeans struct {
		Round   int
		Centers []float64
	}
	inner  struct{ Low, High uint64 }
	record struct {
		Embedded
		Name   title
		Tags   map[string][]string
		Next   *record
		Raw    []byte
		Digest [4]byte
		At     time.Time
		From   netip.Addr
		Small  float32
		Big    *big.Int
		Set    map[inner]struct{}
	}
)

type Embedded struct {
	Depth int8
	Stamp time.Time
}

func codecOf[T any](t testing.TB) *codec.Codec[T] {
	t.Helper()
	c, err := codec.For[T]()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// roundTrip sends v in every possible way and returns what comes back, which is the same each time.
func roundTrip[T any](t rapid.TB, v T) T {
	t.Helper()
	c, err := codec.For[T]()
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "prefix"
	b, err := c.Append([]byte(prefix), &v)
	if err != nil || string(b[:len(prefix)]) != prefix {
		t.Fatalf("%v: %v", v, err)
	}
	b = b[len(prefix):]
	if view, ok := c.View(&v); ok && !bytes.Equal(view, b) {
		t.Fatalf("%v: Append has %x, View %x", v, b, view)
	}
	var first T
	for _, adopt := range []bool{false, true} {
		for shift := range 3 { // the sender does not choose where b begins
			at := append(make([]byte, shift), b...)[shift:]
			var back T
			if err := c.Decode(at, &back, adopt); err != nil {
				t.Fatal(err)
			}
			if !adopt {
				for i := range at {
					at[i] ^= 0xff // it was copied
				}
			}
			if why := differ(reflect.ValueOf(&v).Elem(), reflect.ValueOf(&back).Elem()); why != "" {
				t.Fatalf("%v comes back as %v: %s", v, back, why)
			}
			again, err := c.Append(nil, &back)
			if err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%v: %x, then %x, %v", v, b, again, err)
			}
			first = back
		}
	}
	if back, err := c.DecodeInto(b, v); err != nil || differ(reflect.ValueOf(&v).Elem(), reflect.ValueOf(&back).Elem()) != "" {
		t.Fatalf("%v into itself: %v, %v", v, back, err)
	}
	return first
}

// differ compares to the bit, and distinguishes nil from empty, except for slices at the top that are
// plain memory. It is the dumb version of what the codec promises.
func differ(a, b reflect.Value) string { return differAt(a, b, true) }

func differAt(a, b reflect.Value, top bool) string {
	switch k := a.Kind(); {
	case a.Type() == reflect.TypeFor[time.Time]():
		x, y := a.Interface().(time.Time), b.Interface().(time.Time)
		_, xo := x.Zone()
		_, yo := y.Zone()
		return unless(x.Equal(y) && xo == yo, "time")
	case a.Type() == reflect.TypeFor[big.Int]():
		x, y := a.Interface().(big.Int), b.Interface().(big.Int)
		return unless(x.Cmp(&y) == 0, "big.Int")
	case a.Type() == reflect.TypeFor[netip.Addr]():
		return unless(a.Interface() == b.Interface(), "netip.Addr")
	case k == reflect.Float32 || k == reflect.Float64:
		// Memory, since a.Float() makes signaling NaNs of 32 bits quiet.
		return unless(bits(a) == bits(b), "bits of a float")
	case k == reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return unless(a.IsNil() == b.IsNil(), "nil pointer")
		}
		return differAt(a.Elem(), b.Elem(), false)
	case k == reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).Name == "_" {
				continue
			}
			if why := differAt(a.Field(i), b.Field(i), false); why != "" {
				return a.Type().Field(i).Name + ": " + why
			}
		}
		return ""
	case k == reflect.Slice || k == reflect.Array:
		if k == reflect.Slice && a.IsNil() != b.IsNil() && (!top || a.Len()+b.Len() > 0) || a.Len() != b.Len() {
			return fmt.Sprintf("slice: nil %v, %v; length %d, %d", k == reflect.Slice && a.IsNil(), k == reflect.Slice && b.IsNil(), a.Len(), b.Len())
		}
		for i := range a.Len() {
			if why := differAt(a.Index(i), b.Index(i), false); why != "" {
				return fmt.Sprintf("[%d]: %s", i, why)
			}
		}
		return ""
	case k == reflect.Map:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return "map: nil or length"
		}
		for key, x := range a.Seq2() {
			y := b.MapIndex(key)
			if !y.IsValid() {
				return fmt.Sprintf("no key %v", key)
			}
			if why := differAt(x, y, false); why != "" {
				return fmt.Sprintf("[%v]: %s", key, why)
			}
		}
		return ""
	}
	return unless(a.Equal(b), fmt.Sprintf("%v, %v", a, b))
}

func bits(v reflect.Value) uint64 {
	if v.Kind() == reflect.Float64 {
		return math.Float64bits(v.Float())
	}
	if !v.CanInterface() {
		return math.Float64bits(v.Float())
	}
	return uint64(math.Float32bits(v.Convert(reflect.TypeFor[float32]()).Interface().(float32)))
}

func unless(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

func anyValue[T any](t *testing.T) {
	t.Run(reflect.TypeFor[T]().String(), func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { roundTrip(t, rapid.Make[T]().Draw(t, "value")) })
	})
}

func TestAnyValueComesBack(t *testing.T) {
	anyValue[bool](t)
	anyValue[int](t)
	anyValue[uint64](t)
	anyValue[float32](t)
	anyValue[float64](t)
	anyValue[[5]int16](t)
	anyValue[string](t)
	anyValue[title](t)
	anyValue[[]byte](t)
	anyValue[[]bool](t)
	anyValue[[]int32](t)
	anyValue[[]float64](t)
	anyValue[[]inner](t)
	anyValue[struct {
		A bool
		B int64
		C [3]struct {
			D uint8
			E uint16
		}
	}](t)
	anyValue[[]struct {
		A bool
		B int64
	}](t)
	anyValue[[]string](t)
	anyValue[[][]float64](t)
	anyValue[[]struct{}](t)
	anyValue[*int](t)
	anyValue[map[string]int](t)
	anyValue[map[int][]byte](t)
	anyValue[map[inner]string](t)
	anyValue[map[[2]int8]bool](t)
	anyValue[map[bool]float64](t)
	anyValue[kmeans](t)
	anyValue[map[string]map[uint8]*kmeans](t)
	anyValue[[]*struct {
		Name string
		Of   *Embedded2
	}](t)
}

type Embedded2 struct {
	Kind [3]byte
	Rest []uint16
}

func TestHardValuesComeBack(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	noon := time.Date(2026, 11, 15, 12, 0, 0, 123456789, berlin)
	negative := math.Copysign(0, -1)
	quiet64, signaling64 := math.Float64frombits(0xfff8000000001234), math.Float64frombits(0x7ff0000000000001)
	quiet32, signaling32 := math.Float32frombits(0x7fc01234), math.Float32frombits(0x7f800001)

	roundTrip(t, point{1, 2})
	roundTrip(t, named{{1, 2}, {math.Inf(1), negative}})
	roundTrip(t, []float32{signaling32, quiet32})
	roundTrip(t, signaling64)
	roundTrip(t, []complex64{complex(float32(math.Inf(1)), -1)})
	roundTrip(t, nested{P: [3]padded{{true, math.MinInt64, 0, -1}}, F: [2]bool{true, false}})
	roundTrip(t, []nested{{}, {F: [2]bool{false, true}}})
	roundTrip(t, struct{}{})
	roundTrip(t, [0]int{})
	roundTrip(t, []struct{}{{}, {}, {}})

	roundTrip(t, noon)
	roundTrip(t, noon.In(time.FixedZone("", -11*3600-30*60)))
	roundTrip(t, time.Time{})
	roundTrip(t, netip.MustParseAddr("fe80::1%eth0"))
	roundTrip(t, struct{ time.Time }{noon}) // its methods are those of the whole

	roundTrip(t, [][]float64{nil, {}, {negative, quiet64, signaling64, math.Inf(-1), 5e-324, math.MaxFloat64, 1.5, 0.1}})
	roundTrip(t, [][]float32{{quiet32, math.SmallestNonzeroFloat32, math.MaxFloat32, float32(negative), 1.5, 0.1}})
	roundTrip(t, [][]int64{{math.MinInt64, math.MaxInt64, -1, 0}})
	roundTrip(t, [][]uint64{{math.MaxUint64, 1 << 63}})
	roundTrip(t, [][]byte{nil, {}, {0}})
	roundTrip(t, [][]padded2{{{true, 3}}})
	roundTrip(t, [][][2]byte{{{1, 2}}})
	roundTrip(t, []map[int]int{nil, {}, {1: 2}})
	roundTrip(t, []map[float64]bool{{negative: true, math.Inf(1): false}})
	roundTrip(t, []*int{nil, new(int)})
	roundTrip(t, []string{"\xff\x00", "", "ü"})
	roundTrip(t, []time.Time{noon, noon.UTC(), {}, time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)})
	roundTrip(t, []*time.Time{nil, &noon})
	roundTrip(t, map[netip.Addr]netip.Addr{netip.MustParseAddr("::1"): netip.MustParseAddr("127.0.0.1"), {}: {}})
	roundTrip(t, *big.NewInt(0).Lsh(big.NewInt(-3), 200))
	roundTrip(t, []*big.Int{nil, big.NewInt(0), big.NewInt(-5), big.NewInt(0).SetUint64(math.MaxUint64)})
	roundTrip(t, struct {
		_  time.Time
		At []time.Time
	}{At: []time.Time{noon}})
	roundTrip(t, kmeans{3, nil})
	roundTrip(t, kmeans{3, []float64{}})
	roundTrip(t, record{})
	roundTrip(t, record{
		Embedded: Embedded{3, noon},
		Name:     "a", Tags: map[string][]string{"x": nil, "y": {}, "z": {"1"}},
		Next: &record{Raw: []byte{}}, Digest: [4]byte{1, 2, 3, 4}, At: noon, From: netip.MustParseAddr("10.0.0.1"),
		Small: quiet32, Big: big.NewInt(1), Set: map[inner]struct{}{{1, 2}: {}},
	})
}

type padded2 struct {
	A bool
	B int64
}

func TestURLsGoByTheirMethods(t *testing.T) {
	u, err := url.Parse("https://user:pw@example.org/a?b#c")
	if err != nil {
		t.Fatal(err)
	}
	c := codecOf[[]*url.URL](t)
	b, err := c.Append(nil, &[]*url.URL{u, nil})
	if err != nil {
		t.Fatal(err)
	}
	var back []*url.URL
	if err := c.Decode(b, &back, false); err != nil || len(back) != 2 || *back[0].User != *u.User || back[0].String() != u.String() || back[1] != nil {
		t.Fatalf("%v, %v", back, err)
	}
}

func TestEmptySliceOfPlainMemoryComesBackAsNil(t *testing.T) {
	for _, v := range [][]float64{nil, {}, make([]float64, 0, 9)} {
		if back := roundTrip(t, v); back != nil {
			t.Errorf("%#v", back)
		}
	}
	into, err := codecOf[[]float64](t).DecodeInto(nil, make([]float64, 3))
	if err != nil || into == nil || len(into) != 0 || cap(into) != 3 {
		t.Errorf("into memory: %#v of %d, %v", into, cap(into), err)
	}
}

// Two equal values whose padding and blank fields differ have the same bytes.
func TestPaddingDoesNotCount(t *testing.T) {
	c := codecOf[[2]nested](t)
	size, ok := c.Size()
	if !ok {
		t.Fatal("no constant size")
	}
	var zero, v [2]nested
	want, err := c.Append(nil, &zero)
	if err != nil {
		t.Fatal(err)
	}
	ones := make([]byte, size)
	for i := range ones {
		ones[i] = 1
	}
	if err := c.Decode(ones, &v, false); err != nil { // memory is set, padding included
		t.Fatal(err)
	}
	if _, ok := c.View(&v); ok {
		t.Error("View shows padding")
	}
	for i := range v {
		for j := range v[i].P {
			p := &v[i].P[j]
			p.a, p.b, p.c = false, 0, 0
		}
		v[i].F = [2]bool{}
	}
	if v != zero {
		t.Fatal("not equal")
	}
	got, err := c.Append(nil, &v)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x\n%x, %v", got, want, err)
	}
}

func TestPlainMemoryIsSentAsItIs(t *testing.T) {
	v := []uint32{1, 2, 0xdeadbeef}
	c := codecOf[[]uint32](t)
	b, err := c.Append(nil, &v)
	if want := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0, 2, 0, 0, 0}, 0xdeadbeef); err != nil || !bytes.Equal(b, want) {
		t.Fatalf("%x, %v", b, err)
	}
	view, ok := c.View(&v)
	v[0] = 7
	if !ok || view[0] != 7 {
		t.Error("View is a copy")
	}
	big := make([]byte, 16)
	var adopted []uint32
	if err := c.Decode(big[:12], &adopted, true); err != nil {
		t.Fatal(err)
	}
	big[4] = 9
	if adopted[1] != 9 || cap(adopted) != 3 {
		t.Errorf("not adopted, or beyond its end: %v of %d", adopted, cap(adopted))
	}
	var odd []uint32
	if err := c.Decode(big[1:13], &odd, true); err != nil {
		t.Fatal(err)
	}
	big[5] = 1
	if odd[1] != 0 {
		t.Error("adopted where it is not aligned")
	}
	dst := make([]uint32, 1, 3)
	into, err := c.DecodeInto(b, dst)
	if err != nil || &into[0] != &dst[0] || into[2] != 0xdeadbeef {
		t.Errorf("%v, %v: not into dst", into, err)
	}
	if into, err = c.DecodeInto(b, dst[:0:2]); err != nil || &into[0] == &dst[0] || len(into) != 3 {
		t.Errorf("%v, %v: beyond dst", into, err)
	}
	if n, err := c.Count(12); n != 3 || err != nil || c.ElemSize() != 4 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestCodecsMayBeShared(t *testing.T) {
	type fresh struct{ M map[string]int } // For has not seen it before
	var wg sync.WaitGroup
	found := make([]*codec.Codec[fresh], 8)
	for i := range found {
		wg.Go(func() {
			c, err := codec.For[fresh]()
			if err != nil {
				t.Error(err)
				return
			}
			found[i] = c
			if _, err := c.Append(nil, &fresh{map[string]int{"a": i}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, c := range found {
		if c != found[0] {
			t.Fatal("two codecs of one type")
		}
	}
}

// TestMapsAreDeterministic encodes a map many times: the order of ranging differs, the bytes do not.
func TestMapsAreDeterministic(t *testing.T) {
	build := func(up bool) map[string]map[int]string {
		m := map[string]map[int]string{}
		for i := range 200 {
			if !up {
				i = 199 - i
			}
			k := fmt.Sprint("k", i%20)
			if m[k] == nil {
				m[k] = map[int]string{}
			}
			m[k][i-100] = fmt.Sprint(i)
		}
		return m
	}
	c := codecOf[map[string]map[int]string](t)
	var want []byte
	for i := range 50 {
		v := build(i%2 == 0)
		b, err := c.Append(nil, &v)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = b
		}
		if !bytes.Equal(b, want) {
			t.Fatal("other bytes for the same map")
		}
	}
}

func TestSignatures(t *testing.T) {
	type pair [2]int
	type local struct{ A int }
	one := codecOf[local](t)
	two := func() *codec.Codec[struct{ A int }] { return codecOf[struct{ A int }](t) }()
	three, name := func() (uint64, string) {
		type local struct{ A uint }
		c := codecOf[local](t)
		return c.Signature(), c.Name()
	}()
	other := func() uint64 {
		type pair [3]int
		return codecOf[pair](t).Signature()
	}()
	if name != one.Name() {
		t.Fatalf("%s, %s: the test needs types of one name", name, one.Name())
	}
	all := map[uint64]bool{
		one.Signature(): true, two.Signature(): true, three: true,
		codecOf[[]int](t).Signature(): true, codecOf[[]uint](t).Signature(): true, codecOf[[2]int](t).Signature(): true,
		codecOf[[3]int](t).Signature(): true, codecOf[title](t).Signature(): true, codecOf[string](t).Signature(): true,
		codecOf[record](t).Signature(): true, codecOf[*record](t).Signature(): true,
		codecOf[map[int]string](t).Signature(): true, codecOf[map[string]int](t).Signature(): true,
		codecOf[pair](t).Signature(): true, other: true,
	}
	if len(all) != 15 {
		t.Errorf("%d signatures of 15 types", len(all))
	}
	if name := codecOf[[]float64](t).Name(); name != "[]float64" {
		t.Error(name)
	}
}

func TestSignaturesAreThoseOfOtherProcesses(t *testing.T) {
	const key = "CODEC_TEST_SIGNATURE"
	mine := fmt.Sprintf("signature %x %x\n", codecOf[record](t).Signature(), codecOf[map[string]inner](t).Signature())
	if os.Getenv(key) != "" {
		fmt.Print(mine)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), key+"=1")
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), mine) {
		t.Errorf("%s, %v; here %s", out, err, mine)
	}
}
