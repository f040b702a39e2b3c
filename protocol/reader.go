package protocol

import "encoding/binary"

// Reader reads messages that are made of bytes and varints. What is not there reads as
// zero, and makes the whole Bad: it is enough to look at the end.
type Reader struct {
	Rest []byte // what is still to be read
	Bad  bool
}

func (r *Reader) took(n int) {
	if n <= 0 {
		r.Bad, r.Rest = true, nil
		return
	}
	r.Rest = r.Rest[n:]
}

// Byte reads one byte.
func (r *Reader) Byte() (x byte) {
	if len(r.Rest) > 0 {
		x = r.Rest[0]
	}
	r.took(min(len(r.Rest), 1))
	return x
}

// Uvarint reads a number that is not negative.
func (r *Reader) Uvarint() uint64 {
	x, n := binary.Uvarint(r.Rest)
	r.took(n)
	return x
}

// Varint reads a number.
func (r *Reader) Varint() int64 {
	x, n := binary.Varint(r.Rest)
	r.took(n)
	return x
}

// Count reads the length of a list whose elements take at least a byte each.
func (r *Reader) Count() int {
	n := r.Uvarint()
	if n > uint64(len(r.Rest)) {
		r.Bad, r.Rest = true, nil
		return 0
	}
	return int(n)
}
