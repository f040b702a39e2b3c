package codec

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
)

// layout describes the memory of a plain type, as far as the codec needs.
type layout struct {
	size, align int
	gaps        []span // padding and blank fields
	bools       []span
	arrays      []array // those whose elements have gaps or bools
}

// span is a range of bytes.
type span struct{ at, size int }

type array struct {
	at, count int
	elem      *layout
}

// plain returns the layout of a type, if it is plain memory. Locks are not plain, though they have no
// pointers: sending one is a mistake. Nor is a uintptr, an address in one process.
func plain(t reflect.Type) (*layout, bool) {
	l := &layout{size: int(t.Size()), align: t.Align()}
	switch k := t.Kind(); {
	case t.PkgPath() == "sync":
		return nil, false
	case k == reflect.Bool:
		l.bools = []span{{0, 1}}
		return l, true
	case k >= reflect.Int && k <= reflect.Uint64, k >= reflect.Float32 && k <= reflect.Complex128:
		return l, true
	case k == reflect.Array:
		elem, ok := plain(t.Elem())
		if !ok {
			return nil, false
		}
		l.add(0, t.Len(), elem)
		return l, true
	case k == reflect.Struct:
		return l, l.addFields(t)
	}
	return nil, false
}

// addFields adds what is inside a struct and reports whether all of it is plain.
func (l *layout) addFields(t reflect.Type) bool {
	end := 0
	for f := range t.Fields() {
		inner, ok := plain(f.Type)
		if !ok {
			return false
		}
		if f.Name == "_" {
			continue // the bytes up to the next field are a gap
		}
		l.gap(end, int(f.Offset))
		l.add(int(f.Offset), 1, inner)
		end = int(f.Offset) + inner.size
	}
	l.gap(end, l.size)
	return true
}

func (l *layout) gap(from, to int) {
	if from < to {
		l.gaps = append(l.gaps, span{from, to - from})
	}
}

// add adds what is inside count consecutive elements.
func (l *layout) add(at, count int, elem *layout) {
	switch {
	case elem.uniform() || count == 0:
	case elem.isBool():
		l.bools = append(l.bools, span{at, count})
	case count > 1:
		l.arrays = append(l.arrays, array{at, count, elem})
	default:
		for _, g := range elem.gaps {
			l.gaps = append(l.gaps, span{at + g.at, g.size})
		}
		for _, b := range elem.bools {
			l.bools = append(l.bools, span{at + b.at, b.size})
		}
		for _, a := range elem.arrays {
			l.arrays = append(l.arrays, array{at + a.at, a.count, a.elem})
		}
	}
}

// uniform reports whether every byte counts and may have any value.
func (l *layout) uniform() bool { return len(l.gaps)+len(l.bools)+len(l.arrays) == 0 }

func (l *layout) isBool() bool { return l.size == 1 && len(l.bools) == 1 }

// dense reports whether every byte counts.
func (l *layout) dense() bool {
	return len(l.gaps) == 0 && !slices.ContainsFunc(l.arrays, func(a array) bool { return !a.elem.dense() })
}

// zeroGaps zeroes the gaps of the consecutive elements in b.
func (l *layout) zeroGaps(b []byte) {
	for ; len(b) > 0; b = b[l.size:] {
		for _, g := range l.gaps {
			clear(b[g.at:][:g.size])
		}
		for _, a := range l.arrays {
			a.elem.zeroGaps(b[a.at:][:a.count*a.elem.size])
		}
	}
}

// checkBools returns an error if a bool in the consecutive elements in b is neither true nor false: the
// compiler assumes that there are none.
func (l *layout) checkBools(b []byte) error {
	if l.isBool() {
		return checkBools(b)
	}
	if len(l.bools)+len(l.arrays) == 0 {
		return nil
	}
	for ; len(b) > 0; b = b[l.size:] {
		for _, s := range l.bools {
			if err := checkBools(b[s.at:][:s.size]); err != nil {
				return err
			}
		}
		for _, a := range l.arrays {
			if err := a.elem.checkBools(b[a.at:][:a.count*a.elem.size]); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkBools(b []byte) error {
	var all uint64
	rest := b
	for ; len(rest) >= 8; rest = rest[8:] {
		all |= binary.LittleEndian.Uint64(rest)
	}
	for _, x := range rest {
		all |= uint64(x)
	}
	if all&^0x0101010101010101 == 0 {
		return nil
	}
	bad := slices.IndexFunc(b, func(x byte) bool { return x > 1 })
	return fmt.Errorf("a bool is %d; allowed: 0 or 1", b[bad])
}
