package fold

import (
	"encoding/binary"
	"math"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// words returns the bytes of numbers.
func words[E number](v ...E) []byte {
	if len(v) == 0 {
		return []byte{}
	}
	return append([]byte(nil), bytesOf(v)...)
}

func numbersOf[E number](b []byte) []E { return append([]E(nil), cast[E](b)...) }

func check[E number](t *testing.T, op Op, a, b, want []E) {
	t.Helper()
	f, _, err := For(op, reflect.TypeFor[E]().Kind())
	if err != nil {
		t.Fatal(err)
	}
	left, right := words(a...), words(b...)
	got, err := f(nil, left, right)
	if err != nil || !reflect.DeepEqual(numbersOf[E](got), numbersOf[E](words(want...))) {
		t.Errorf("%v of %v and %v: %v, %v; want %v", op, a, b, numbersOf[E](got), err, want)
	}
	for _, dst := range [][]byte{left, right} { // in place
		l, r := words(a...), words(b...)
		into := l
		if &dst[0] == &right[0] {
			into = r
		}
		if got, err := f(into, l, r); err != nil || &got[0] != &into[0] || !reflect.DeepEqual(numbersOf[E](got), want) {
			t.Errorf("%v in place: %v, %v; want %v", op, numbersOf[E](got), err, want)
		}
	}
}

func TestNumbersAreCombined(t *testing.T) {
	check(t, Sum, []int8{100, -3}, []int8{100, 1}, []int8{-56, -2}) // as Go adds
	check(t, Product, []uint16{300, 2}, []uint16{300, 3}, []uint16{24464, 6})
	check(t, Min, []int64{-1, 5}, []int64{2, -7}, []int64{-1, -7})
	check(t, Max, []uint64{1 << 63, 5}, []uint64{2, 7}, []uint64{1 << 63, 7})
	check(t, And, []int32{6, -1}, []int32{3, 8}, []int32{2, 8})
	check(t, Or, []uint8{6, 0}, []uint8{3, 8}, []uint8{7, 8})
	check(t, Xor, []int64{6, -1}, []int64{3, -1}, []int64{5, 0})
	check(t, Sum, []float32{0.5, 1}, []float32{0.25, -1}, []float32{0.75, 0})
	check(t, Max, []float64{1, math.Inf(1)}, []float64{2, 3}, []float64{2, math.Inf(1)})
	check(t, Product, []complex64{1i}, []complex64{1i}, []complex64{-1})
	check(t, Sum, []complex128{1 + 2i}, []complex128{3 - 1i}, []complex128{4 + 1i})
}

func TestNaNWins(t *testing.T) {
	for _, op := range []Op{Min, Max} {
		f, _, _ := For(op, reflect.Float64)
		for _, pair := range [][2]float64{{math.NaN(), 1}, {1, math.NaN()}} {
			got, err := f(nil, words(pair[0]), words(pair[1]))
			if err != nil || !math.IsNaN(numbersOf[float64](got)[0]) {
				t.Errorf("%v of %v: %v, %v", op, pair, got, err)
			}
		}
	}
}

// TestAnyAlignment uses unaligned memory, such as a piece of a message.
func TestAnyAlignment(t *testing.T) {
	room := make([]byte, 64)
	f, _, _ := For(Sum, reflect.Int64)
	for at := range 8 {
		left := room[at : at+16]
		binary.LittleEndian.PutUint64(left, 1)
		binary.LittleEndian.PutUint64(left[8:], 2)
		got, err := f(left, left, words[int64](10, 20))
		if err != nil || unsafe.SliceData(got) != unsafe.SliceData(left) || binary.LittleEndian.Uint64(got) != 11 || binary.LittleEndian.Uint64(got[8:]) != 22 {
			t.Errorf("at %d: %v, %v", at, got, err)
		}
	}
}

func TestWhatCannotBeCombined(t *testing.T) {
	for _, c := range []struct {
		op   Op
		kind reflect.Kind
		want string
	}{
		{Xor, reflect.Float64, "xor of float64; allowed: sum, product, min, max"},
		{Min, reflect.Complex64, "min of complex64; allowed: sum, product"},
		{Sum, reflect.String, "sum of string; allowed: numbers"},
		{ops, reflect.Int, "operation 7; allowed: "},
	} {
		if _, _, err := For(c.op, c.kind); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v of %v: %v", c.op, c.kind, err)
		}
	}
	f, _, _ := For(Sum, reflect.Int64)
	for _, lengths := range [][2]int{{8, 16}, {9, 9}} {
		if _, err := f(nil, make([]byte, lengths[0]), make([]byte, lengths[1])); err == nil {
			t.Errorf("values of %v bytes were combined", lengths)
		}
	}
}

func TestFloatsAreNotExact(t *testing.T) {
	for op := range ops {
		for kind := range table {
			_, exact, err := For(op, kind)
			floats := kind == reflect.Float32 || kind == reflect.Float64 || kind == reflect.Complex64 || kind == reflect.Complex128
			if want := !floats || op == Min || op == Max; err == nil && exact != want {
				t.Errorf("%v of %v: exact %t", op, kind, exact)
			}
		}
	}
}

func BenchmarkSum(b *testing.B) {
	f, _, _ := For(Sum, reflect.Float64)
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	for b.Loop() {
		_, _ = f(x, x, y)
	}
}
