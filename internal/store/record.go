package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
)

// ID names a job, or a run of one.
type ID [16]byte

// record is what a file holds: a header, a value, and a CRC-64 (ECMA) of both.
type record struct {
	header
	value []byte
}

// header precedes the value in a file: its fields in order, all numbers little-endian.
type header struct {
	Magic     [len(magic)]byte
	Version   uint32
	Kind      uint32
	Job       ID
	Run       ID     // the run that wrote it
	Tasks     uint64 // of the job
	Task      uint64
	Epoch     uint64
	Key       uint64
	Signature uint64 // of the value's type
	Length    uint64 // of the value
}

// The kinds of records.
const (
	jobKind uint32 = 1 + iota
	stateKind
	valueKind
	foundKind
)

const (
	magic     = "coppice\n"
	version   = 1
	headerLen = 96
	sumLen    = 8
)

// ErrDamaged is returned when a file is not as it was written.
var ErrDamaged = errors.New("damaged")

var polynomial = crc64.MakeTable(crc64.ECMA)

// frame returns what precedes a record's value in the file, and what follows it.
func (r *record) frame() (head, sum []byte) {
	r.Magic, r.Version, r.Length = [len(magic)]byte([]byte(magic)), version, uint64(len(r.value))
	head, _ = binary.Append(nil, binary.LittleEndian, r.header) // all of fixed size
	return head, checksum(head, r.value)
}

// checksum returns the checksum of the parts, in order.
func checksum(parts ...[]byte) []byte {
	crc := uint64(0)
	for _, b := range parts {
		crc = crc64.Update(crc, polynomial, b)
	}
	return binary.LittleEndian.AppendUint64(nil, crc)
}

// parse reads a record; its value is part of b.
func parse(b []byte) (r record, err error) {
	if len(b) < headerLen+sumLen {
		return r, fmt.Errorf("%w: %d bytes, less than a header has", ErrDamaged, len(b))
	}
	var h header
	_, _ = binary.Decode(b, binary.LittleEndian, &h) // b is long enough
	body, sum := b[:len(b)-sumLen], b[len(b)-sumLen:]
	switch {
	case string(h.Magic[:]) != magic:
		return r, fmt.Errorf("%w: it does not begin like a file of saved state", ErrDamaged)
	case h.Length != uint64(len(body)-headerLen):
		return r, fmt.Errorf("%w: a value of %d bytes, and not %d", ErrDamaged, len(body)-headerLen, h.Length)
	case !bytes.Equal(checksum(body), sum):
		return r, fmt.Errorf("%w: its checksum is another", ErrDamaged)
	case h.Version != version:
		return r, fmt.Errorf("version %d of saved state; allowed: %d", h.Version, version)
	}
	return record{h, body[headerLen:len(body):len(body)]}, nil
}
