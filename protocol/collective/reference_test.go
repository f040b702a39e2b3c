package collective

import (
	"encoding/binary"

	"github.com/coppice-go/coppice/protocol"
)

// mixed is an operation on words that is neither commutative nor associative: combining in another order or association
// gives another result.
func mixed(dst, left, right []byte) ([]byte, error) {
	if len(left) != len(right) {
		return nil, ErrSize
	}
	if len(dst) != len(left) {
		dst = make([]byte, len(left))
	}
	for i := 0; i+8 <= len(left); i += 8 {
		l, r := binary.LittleEndian.Uint64(left[i:]), binary.LittleEndian.Uint64(right[i:])
		binary.LittleEndian.PutUint64(dst[i:], protocol.Mix(3*l+1, r))
	}
	return dst, nil
}

// added is addition, for algorithms that combine in any order.
func added(dst, left, right []byte) ([]byte, error) {
	if len(dst) != len(left) {
		dst = make([]byte, len(left))
	}
	for i := 0; i+8 <= len(left); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(left[i:])+binary.LittleEndian.Uint64(right[i:]))
	}
	return dst, nil
}

// canonical combines values in the canonical association.
func canonical(values [][]byte, fold func(dst, l, r []byte) ([]byte, error)) []byte {
	if len(values) == 1 {
		return values[0]
	}
	half := 1
	for 2*half < len(values) {
		half *= 2
	}
	v, err := fold(nil, canonical(values[:half], fold), canonical(values[half:], fold))
	if err != nil {
		panic(err)
	}
	return v
}

// input is what task r gives to task d.
func input(r, d Rank, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(protocol.Mix(uint64(r)<<32|uint64(d), uint64(i)))
	}
	return b
}

// block is input of any length up to n; some are absent.
func block(r, d Rank, n int) []byte {
	x := protocol.Mix(uint64(r), uint64(d))
	if x>>32%7 == 0 {
		return nil
	}
	return input(r, d, int(x%uint64(n+1)))
}

// expected is the result of one task, all blocks or the vector, computed without
// any messages.
func expected(spec Spec, n int, self Rank) (want [][]byte) {
	p := Rank(spec.P)
	fold := mixed
	if spec.AnyOrder {
		fold = added
	}
	var values [][]byte
	for r := range p {
		values = append(values, input(r, 0, n))
	}
	switch spec.Op {
	case Broadcast:
		return [][]byte{values[spec.Root]}
	case Reduce:
		if self != spec.Root {
			return nil
		}
		return [][]byte{canonical(values, fold)}
	case AllReduce:
		return [][]byte{canonical(values, fold)}
	case Scan:
		return [][]byte{canonical(values[:self+1], fold)}
	case ExScan:
		if self == 0 {
			return nil
		}
		return [][]byte{canonical(values[:self], fold)}
	case ReduceScatter:
		for r := range p {
			values[r] = input(r, self, n)
		}
		return [][]byte{canonical(values, fold)}
	case Scatter:
		return [][]byte{block(spec.Root, self, n)}
	case Gather:
		if self != spec.Root {
			return nil
		}
		fallthrough
	case AllGather:
		for r := range p {
			want = append(want, block(r, 0, n))
		}
	case AllToAll:
		for r := range p {
			want = append(want, block(r, self, n))
		}
	}
	return want
}
