package codec_test

import (
	"encoding"
	"math"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/coppice-go/coppice/internal/codec"
)

type (
	half struct{ Names []string }
	// byMethods keeps its unexported field: its methods encode it.
	byMethods struct{ names []string }
	promoted  struct {
		time.Time
		Name string
	}
	Left   struct{ A []int }
	Right  struct{ A []int }
	loop   struct{ Next *loop }
	looped []looped
)

func (half) MarshalBinary() ([]byte, error) { return nil, nil }

func (m *byMethods) MarshalBinary() ([]byte, error) { return []byte(strings.Join(m.names, ",")), nil }

func (m *byMethods) UnmarshalBinary(b []byte) error {
	m.names = strings.Split(string(b), ",")
	return nil
}

func refusal[T any]() error {
	_, err := codec.For[T]()
	return err
}

func TestTypesThatWouldBeLostAreRefused(t *testing.T) {
	for want, err := range map[string]error{
		"cannot send chan int: it means nothing":           refusal[chan int](),
		"cannot send func(): it means nothing":             refusal[func()](),
		"cannot send unsafe.Pointer: it means":             refusal[unsafe.Pointer](),
		"cannot send uintptr: it means":                    refusal[uintptr](),
		"cannot send []uintptr: [] (uintptr) means":        refusal[[]uintptr](),
		"cannot send interface {}: it does not say":        refusal[any](),
		"cannot send []error: [] (error) does not say":     refusal[[]error](),
		"Jobs[].Done (chan bool) means nothing":            refusal[struct{ Jobs []struct{ Done chan bool } }](),
		"By[key].P (*int) is no key":                       refusal[struct{ By map[struct{ P *int }]int }](),
		"[key] (time.Time) is no key":                      refusal[map[time.Time]int](),
		"[key] (interface {}) does not say":                refusal[map[any]int](),
		"names ([]string) is unexported and would be lost": refusal[struct{ names []string }](),
		"[].x (float64) is unexported and would be lost":   refusal[map[int]point](),
		"Lock.":                                refusal[struct{ Lock sync.Mutex }](),
		"C[] (complex128) has no form in CBOR": refusal[struct{ C []complex128 }](),
		"it has MarshalBinary but not UnmarshalBinary":   refusal[half](),
		"[] (codec_test.half) has MarshalBinary but not": refusal[[]half](),
		"Time (time.Time) is embedded, and its methods":  refusal[promoted](),
		"[].Time (time.Time) is embedded":                refusal[[]promoted](),
		"Int (*big.Int) is embedded":                     refusal[struct{ *big.Int }](),
		"BinaryMarshaler (encoding.BinaryMarshaler) is embedded": refusal[struct {
			encoding.BinaryMarshaler
			encoding.BinaryUnmarshaler
		}](),
		"Right.A ([]int) shares its name": refusal[struct {
			Left
			Right
		}](),
		"Left (*codec_test.Left) is an embedded pointer": refusal[struct{ *Left }](),
		"B ([]int) shares its name": refusal[struct {
			A []int `json:"x"`
			B []int `cbor:"x"`
		}](),
		"A ([]int) is left out by its tag; allowed: a tag for CBOR": refusal[struct {
			A []int `json:"-"`
		}](),
		"A ([]int) is left out by its tag when it is empty": refusal[struct {
			A []int `json:"a,omitempty"`
		}](),
		"A (time.Time) is left out by its tag when": refusal[struct {
			A time.Time `json:"a,omitzero"`
		}](),
		"D ([]int) shares its name": refusal[struct {
			C []int `cbor:"1,keyasint"`
			D []int `cbor:"01,keyasint"`
		}](),
		"A (*[]int) may point to nil":            refusal[struct{ A *[]int }](),
		"cannot send **int: it may point to nil": refusal[**int](),
	} {
		switch {
		case err == nil:
			t.Errorf("%q: not refused", want)
		case !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot send ") ||
			!strings.Contains(err.Error(), "; allowed: ") || strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestTypesThatLookLostAreAllowed(t *testing.T) {
	for name, err := range map[string]error{
		"methods": refusal[byMethods](),
		"inside":  refusal[[]byMethods](),
		"harmless tags": refusal[struct {
			A string `json:"a,omitempty"`
			B []int  `json:"b" cbor:"b"`
			C []int  `json:"-" cbor:"C"`
		}](),
		"as an array": refusal[struct {
			_ struct{} `cbor:",toarray"`
			A []int
		}](),
		"recursive": refusal[loop](),
		"lists":     refusal[looped](),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := codecOf[[]byMethods](t)
	v := []byMethods{{names: []string{"a", "b"}}}
	b, err := c.Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	var back []byMethods
	if err := c.Decode(b, &back, false); err != nil || len(back) != 1 || len(back[0].names) != 2 {
		t.Errorf("%v, %v", back, err)
	}
}

func list(n int) (l *loop) {
	for range n {
		l = &loop{l}
	}
	return l
}

func TestDeepValuesComeBack(t *testing.T) {
	c := codecOf[*loop](t)
	v := list(10_000)
	b, err := c.Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	var back *loop
	if err := c.Decode(b, &back, false); err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; back != nil; back = back.Next {
		n++
	}
	if n != 10_000 {
		t.Errorf("%d nodes", n)
	}
}

func sending[T any](v T) error {
	c, err := codec.For[T]()
	if err != nil {
		return err
	}
	b, err := c.Append([]byte("before"), &v)
	if err != nil && string(b) != "before" {
		panic("dst has changed")
	}
	return err
}

// Values that CBOR would change are refused, though their types are not.
func TestValuesThatWouldBeLostAreRefused(t *testing.T) {
	cycle := &loop{}
	cycle.Next = cycle
	slice := looped{nil}
	slice[0] = slice
	lmt := time.Date(1800, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", 53*60+28))
	late := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	signaling := math.Float32frombits(0x7f800001)
	for want, err := range map[string]error{
		"sending *codec_test.loop: nested deeper than":             sending(cycle),
		"sending codec_test.looped: nested deeper":                 sending(slice),
		"sending *codec_test.loop: nested deeper than 100":         sending(list(10_002)),
		"zone offset of 53m28s; allowed: whole minutes":            sending([]time.Time{lmt}),
		"sending time.Time: a time with a zone offset of -4h56m2s": sending(lmt.In(time.FixedZone("LMT", -4*3600-56*60-2))),
		"a time in year 10000; allowed: 0 to 9999":                 sending(map[string]*time.Time{"": &late}),
		"a pointer to the zero time":                               sending([]*time.Time{{}}),
		"a float32 is a signaling NaN (0x7f800001)":                sending([][]float32{{signaling}}),
		"NaN is a key":                    sending(map[float64]int{math.NaN(): 1}),
		"zone offset of 53m28s":           sending(record{Embedded: Embedded{Stamp: lmt}}),
		"sending map[[2]float32]int: NaN": sending(map[[2]float32]int{{0, float32(math.NaN())}: 1}),
	} {
		switch {
		case err == nil:
			t.Errorf("%q: not refused", want)
		case !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "; allowed: "):
			t.Errorf("%q: %v", want, err)
		}
	}
}

func decoding[T any](b ...byte) error {
	c, err := codec.For[T]()
	if err != nil {
		panic(err)
	}
	var v T
	err = c.Decode(b, &v, true)
	_, errInto := c.DecodeInto(b, v)
	if (err == nil) != (errInto == nil) {
		panic("Decode and DecodeInto disagree")
	}
	return err
}

func TestWrongBytesAreRefused(t *testing.T) {
	for want, err := range map[string]error{
		"receiving int: 7 bytes; allowed: 8":                     decoding[int](make([]byte, 7)...),
		"receiving int: 9 bytes; allowed: 8":                     decoding[int](make([]byte, 9)...),
		"receiving []float64: 9 bytes; allowed: a multiple of 8": decoding[[]float64](make([]byte, 9)...),
		"receiving bool: a bool is 2; allowed: 0 or 1":           decoding[bool](2),
		"receiving []bool: a bool is 4":                          decoding[[]bool](0, 1, 0, 1, 0, 1, 0, 1, 4, 1),
		"receiving []bool: a bool is 128":                        decoding[[]bool](0, 1, 0, 128, 0, 1, 0, 1, 1),
		"receiving []bool: a bool is 255":                        decoding[[]bool](0, 1, 255),
		"receiving [2]codec_test.padded: a bool is 3":            decoding[[2]padded](append(make([]byte, 24), append([]byte{3}, make([]byte, 23)...)...)...),
		"receiving time.Time: ":                                  decoding[time.Time](9, 9),
		"receiving []string: ":                                   decoding[[]string](0x81),
		"receiving map[string]int: ":                             decoding[map[string]int](0xa2, 0x61, 'a', 1, 0x61, 'a', 2),
		"receiving codec_test.kmeans: ":                          decoding[kmeans](0xa1, 0x61, 'x', 1),
		"receiving [][]int: ":                                    decoding[[][]int](0x80, 0),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestFailedDecodeLeavesTheValue(t *testing.T) {
	v := kmeans{1, []float64{2}}
	if err := codecOf[kmeans](t).Decode([]byte{0xa1, 0x65, 'R', 'o', 'u', 'n', 'd', 0x61, 'x'}, &v, true); err == nil || v.Round != 1 || len(v.Centers) != 1 {
		t.Errorf("%v, %v", v, err)
	}
	m := map[string]int{"old": 1}
	if err := codecOf[map[string]int](t).Decode([]byte{0xa0}, &m, true); err != nil || len(m) != 0 {
		t.Errorf("%v, %v: old entries stay", m, err)
	}
}
