package collective

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// FuzzTables reads bytes as rules, which must then be usable and come back as they were
// written, and as a table of blocks, of which nothing may be missing or left over.
func FuzzTables(f *testing.F) {
	f.Add([]byte(`[{"op":"allreduce","p":4,"bytes":16384,"algorithm":"binomial","span":262144}]`), uint8(3))
	f.Add([]byte(`[{"op":"alltoall","algorithm":"hub"},{"op":"alltoall","bytes":9,"algorithm":"direct"}]`), uint8(2))
	f.Add(append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 2), absent), "ab"...), uint8(2))
	f.Add(binary.LittleEndian.AppendUint64(make([]byte, 8), 1<<63), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		if table, err := ParseTable(b); err == nil {
			useTable(t, table)
		}
		readBlocks(t, b, int(n%8)+2)
	})
}

// useTable asks a table for all that the runtime does.
func useTable(t *testing.T, table Table) {
	for op := Broadcast; int(op) < len(opNames); op++ {
		for _, p := range []int{1, 2, 5, 64, 100} {
			table.Choose(Spec{Op: op, P: p, AnyOrder: true}, 1<<20)
			table.Whole().Choose(Spec{Op: op, P: p}, -1)
			table.Small(Spec{Op: op, P: p})
		}
	}
	text, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseTable(text); err != nil || len(table) > 0 && !reflect.DeepEqual(again, table) {
		t.Errorf("%s is %+v, %v", text, again, err)
	}
}

// readBlocks reads n blocks.
func readBlocks(t *testing.T, b []byte, n int) {
	slots := make([]int32, n)
	for i := range slots {
		slots[i] = int32(i)
	}
	s := &Store{program: &Program{}, slots: make([][]byte, n), lent: make([]bool, n)}
	if err := s.putBlocks(&Step{Slots: slots}, b, true); err != nil {
		if !errors.Is(err, ErrSize) {
			t.Error(err)
		}
		return
	}
	var again, rest []byte
	for _, block := range s.slots {
		size := uint64(len(block))
		if block == nil {
			size = absent
		}
		again, rest = binary.LittleEndian.AppendUint64(again, size), append(rest, block...)
	}
	if again = append(again, rest...); !bytes.Equal(again, b) {
		t.Errorf("%x was read as %x", b, again)
	}
}
