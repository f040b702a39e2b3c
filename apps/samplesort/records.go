package samplesort

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Layout is the form of records: Size bytes each, which begin with Key bytes that they are ordered by.
type Layout struct{ Size, Key int }

// sizeMax is the longest record.
const sizeMax = 1 << 20

// Check returns what is wrong with a layout.
func (l Layout) Check() error {
	switch {
	case l.Size < 1 || l.Size > sizeMax:
		return fmt.Errorf("records of %d bytes; allowed: 1 to %d", l.Size, sizeMax)
	case l.Key < 1 || l.Key > l.Size:
		return fmt.Errorf("keys of %d bytes in records of %d; allowed: 1 to %d", l.Key, l.Size, l.Size)
	}
	return nil
}

func (l Layout) width() int { return l.Size }

func (l Layout) key(record []byte) []byte { return record[:l.Key] }

func (l Layout) disorder(part []byte) int {
	for i := 1; i < len(part)/l.Size; i++ {
		if bytes.Compare(part[i*l.Size:][:l.Key], part[(i-1)*l.Size:][:l.Key]) < 0 {
			return i
		}
	}
	return 0
}

func (l Layout) sum(all []byte) (sum uint64) {
	for ; len(all) > 0; all = all[l.Size:] {
		sum += hash(all[:l.Size])
	}
	return sum
}

// hash returns a number that is practically unique to the bytes.
func hash(record []byte) uint64 {
	h := uint64(golden)
	for len(record) >= 8 {
		h = mix(h ^ binary.LittleEndian.Uint64(record))
		record = record[8:]
	}
	for _, b := range record {
		h = mix(h ^ uint64(b))
	}
	return h
}

// sort sorts entries, and then moves each record to room and back, since room may have more capacity, for
// what comes later.
func (l Layout) sort(run, room []byte, _ int) (sorted, left []byte) {
	runs := [][]byte{run}
	order := l.entries(run, 0)
	radix(order, make([]entry, len(order)), false)
	for lo := 0; lo < len(order) && l.Key > 8; {
		hi := lo + 1
		for hi < len(order) && order[hi].prefix == order[lo].prefix {
			hi++
		}
		slices.SortStableFunc(order[lo:hi], func(a, b entry) int { return bytes.Compare(l.rest(runs, a), l.rest(runs, b)) })
		lo = hi
	}
	copy(run, l.collect(room[:0], runs, order))
	return run, room
}

func (l Layout) merge(runs [][]byte, room []byte, _ int) []byte {
	orders := make([][]entry, len(runs))
	for i, run := range runs {
		orders[i] = l.entries(run, i)
	}
	order := merged(orders, nil, nil, func(dst, a, b []entry) { l.mergeTwo(runs, dst, a, b) })
	return l.collect(room[:0], runs, order)
}

// runShift splits an entry's place into the run and the record in it.
const runShift = 40

// entries returns the entries of the i-th run's records.
func (l Layout) entries(run []byte, i int) []entry {
	all := make([]entry, len(run)/l.Size)
	var key [8]byte
	for k := range all {
		copy(key[:], run[k*l.Size:][:l.Key])
		all[k] = entry{binary.BigEndian.Uint64(key[:]), uint64(i)<<runShift | uint64(k)}
	}
	return all
}

// record returns the record of an entry.
func (l Layout) record(runs [][]byte, e entry) []byte {
	return runs[e.at>>runShift][int(e.at&(1<<runShift-1))*l.Size:][:l.Size]
}

// rest returns the part of a key beyond its prefix.
func (l Layout) rest(runs [][]byte, e entry) []byte { return l.record(runs, e)[min(8, l.Key):l.Key] }

// collect appends records in the order of their entries.
func (l Layout) collect(dst []byte, runs [][]byte, order []entry) []byte {
	dst = slices.Grow(dst, len(order)*l.Size)
	for _, e := range order {
		dst = append(dst, l.record(runs, e)...)
	}
	return dst
}

// mergeTwo merges two runs of entries; of equal keys the first one's come first.
func (l Layout) mergeTwo(runs [][]byte, dst, a, b []entry) {
	for k := range dst {
		if len(b) == 0 || len(a) > 0 && !l.before(runs, b[0], a[0]) {
			dst[k], a = a[0], a[1:]
		} else {
			dst[k], b = b[0], b[1:]
		}
	}
}

// before reports whether the key of one entry is less than that of another.
func (l Layout) before(runs [][]byte, a, b entry) bool {
	if a.prefix != b.prefix {
		return a.prefix < b.prefix
	}
	return l.Key > 8 && bytes.Compare(l.rest(runs, a), l.rest(runs, b)) < 0
}
