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

// record is what a file holds. All numbers are little-endian:
//
//	 0  magic      8 bytes
//	 8  version    4
//	12  kind       4
//	16  job       16
//	32  run       16
//	48  tasks      8  of the job
//	56  task       8
//	64  epoch      8
//	72  key        8
//	80  signature  8  of the value's type
//	88  length     8  of the value
//	96  value
//	    checksum   8  CRC-64 (ECMA) of all before
type record struct {
	kind  uint32
	job   ID
	run   ID // that wrote it
	tasks uint64
	task  uint64
	epoch uint64
	key   uint64
	sign  uint64
	value []byte
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

// ErrDamaged: a file is not as it was written.
var ErrDamaged = errors.New("damaged")

var polynomial = crc64.MakeTable(crc64.ECMA)

// frame is what stands before a record's value, and behind it.
func (r *record) frame() (header, sum []byte) {
	le := binary.LittleEndian
	header = make([]byte, 0, headerLen)
	header = append(header, magic...)
	header = le.AppendUint32(header, version)
	header = le.AppendUint32(header, r.kind)
	header = append(header, r.job[:]...)
	header = append(header, r.run[:]...)
	for _, n := range []uint64{r.tasks, r.task, r.epoch, r.key, r.sign, uint64(len(r.value))} {
		header = le.AppendUint64(header, n)
	}
	return header, checksum(header, r.value)
}

// checksum is that of some parts.
func checksum(parts ...[]byte) []byte {
	crc := uint64(0)
	for _, b := range parts {
		crc = crc64.Update(crc, polynomial, b)
	}
	return binary.LittleEndian.AppendUint64(nil, crc)
}

// parse reads a record; its value is part of b.
func parse(b []byte) (r record, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < headerLen+sumLen:
		return r, fmt.Errorf("%w: %d bytes, less than a header has", ErrDamaged, len(b))
	case !bytes.HasPrefix(b, []byte(magic)):
		return r, fmt.Errorf("%w: it does not begin like a file of saved state", ErrDamaged)
	}
	body, sum := b[:len(b)-sumLen], b[len(b)-sumLen:]
	if length := le.Uint64(b[88:]); length != uint64(len(body)-headerLen) {
		return r, fmt.Errorf("%w: a value of %d bytes, and not %d", ErrDamaged, len(body)-headerLen, length)
	}
	if !bytes.Equal(checksum(body), sum) {
		return r, fmt.Errorf("%w: its checksum is another", ErrDamaged)
	}
	if v := le.Uint32(b[8:]); v != version {
		return r, fmt.Errorf("version %d of saved state; allowed: %d", v, version)
	}
	r = record{
		kind: le.Uint32(b[12:]), job: ID(b[16:32]), run: ID(b[32:48]),
		tasks: le.Uint64(b[48:]), task: le.Uint64(b[56:]), epoch: le.Uint64(b[64:]),
		key: le.Uint64(b[72:]), sign: le.Uint64(b[80:]), value: body[headerLen:len(body):len(body)],
	}
	return r, nil
}
