package store

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
)

// bytes returns the record as a file contains it.
func (r *record) bytes() []byte {
	header, sum := r.frame()
	return slices.Concat(header, r.value, sum)
}

func sample() *record {
	return &record{header{Kind: stateKind, Job: ID{1, 2, 3}, Run: ID{4}, Tasks: 5, Task: 3, Epoch: 7, Key: 9, Signature: 11}, []byte("what a task has saved")}
}

func TestRecordComesBack(t *testing.T) {
	for _, value := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte("long"), 1<<16)} {
		want := sample()
		want.value = value
		got, err := parse(want.bytes())
		if err != nil || !reflect.DeepEqual(&got, want) {
			t.Errorf("%d bytes: %v", len(value), err)
		}
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	whole := sample().bytes()
	for i := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		if _, err := parse(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d: %v", i, err)
		}
	}
}

func TestEveryTornFileIsFound(t *testing.T) {
	whole := sample().bytes()
	for n := range len(whole) {
		for name, b := range map[string][]byte{
			"cut":          whole[:n],
			"cut to zeros": append(bytes.Clone(whole[:n]), make([]byte, len(whole)-n)...),
			"longer":       append(bytes.Clone(whole), whole[:n+1]...),
		} {
			if _, err := parse(b); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s at byte %d: %v", name, n, err)
			}
		}
	}
}

func TestOtherVersionIsNoDamage(t *testing.T) {
	b := sample().bytes()
	b[8]++
	if _, err := parse(resum(b)); err == nil || errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// FuzzParse checks that every record that parses is one, byte for byte.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(magic))
	f.Add(sample().bytes())
	f.Add((&record{}).bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, resum(b)} {
			r, err := parse(b)
			if err == nil && !bytes.Equal(r.bytes(), b) {
				t.Errorf("%x was read as %x", b, r.bytes())
			}
		}
	})
}

// resum returns b with the checksum that it should have, so that fuzzing gets past it.
func resum(b []byte) []byte {
	if len(b) < headerLen+sumLen {
		return b
	}
	b = bytes.Clone(b)
	return append(b[:len(b)-sumLen], checksum(b[:len(b)-sumLen])...)
}
