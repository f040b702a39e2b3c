package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HeaderLen is the length of a header in bytes.
const HeaderLen = 32

// LengthMax bounds the payload of a frame: what a machine can address.
const LengthMax = 1<<63 - 1

// Kind is the purpose of a frame.
type Kind uint8

// The kinds of frames. Numbered frames are kept until the peer acknowledges them; the others may be
// lost with a connection.
const (
	Data   Kind = iota + 1 // numbered: a message, or its beginning
	Alive                  // not numbered: nothing but the acknowledgement
	Credit                 // numbered: how much more the peer may send; the payload is the link's
	Bye                    // numbered: the sender leaves on purpose
	Part                   // numbered: more of the Data with the same tag
	kinds
)

var kindNames = [kinds]string{Data: "data", Alive: "alive", Credit: "credit", Bye: "bye", Part: "part"}

func (k Kind) String() string {
	if k < Data || k >= kinds {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// Header precedes the payload of every frame. Integers are little-endian:
//
//	0  Length  uint64
//	8  Number  uint64
//	16 Ack     uint64
//	24 Kind    uint8, then 3 bytes that are zero
//	28 Tag     uint32
type Header struct {
	Length uint64 // of the payload
	Number uint64 // of the frame on its link, from 1; 0 if it has none
	Ack    uint64 // all of the peer's frames up to this number have arrived
	Tag    uint32 // the payload's recipient: the reader's to define
	Kind   Kind
}

// ErrFrame is returned for a malformed frame. The connection on which it occurs is no longer usable.
var ErrFrame = errors.New("bad frame")

// Put writes the header's bytes at the beginning of b, which has room for them.
func (h Header) Put(b []byte) {
	_ = b[HeaderLen-1]
	binary.LittleEndian.PutUint64(b, h.Length)
	binary.LittleEndian.PutUint64(b[8:], h.Number)
	binary.LittleEndian.PutUint64(b[16:], h.Ack)
	binary.LittleEndian.PutUint32(b[24:], uint32(h.Kind))
	binary.LittleEndian.PutUint32(b[28:], h.Tag)
}

// PutAck changes the acknowledgement in a header that was Put.
func PutAck(b []byte, ack uint64) { binary.LittleEndian.PutUint64(b[16:], ack) }

// ParseHeader reads the header at the beginning of b, which has at least
// HeaderLen bytes.
func ParseHeader(b []byte) (Header, error) {
	_ = b[HeaderLen-1]
	h := Header{
		Length: binary.LittleEndian.Uint64(b),
		Number: binary.LittleEndian.Uint64(b[8:]),
		Ack:    binary.LittleEndian.Uint64(b[16:]),
		Kind:   Kind(b[24]),
		Tag:    binary.LittleEndian.Uint32(b[28:]),
	}
	return h, h.check(b[25] | b[26] | b[27])
}

func (h Header) check(zero byte) error {
	switch {
	case h.Kind == 0 || h.Kind >= kinds:
		return fmt.Errorf("%w: kind %d; allowed: 1 to %d", ErrFrame, uint8(h.Kind), uint8(kinds)-1)
	case zero != 0:
		return fmt.Errorf("%w: reserved bytes are not zero", ErrFrame)
	case h.Length > LengthMax:
		return fmt.Errorf("%w: length %d; allowed: up to 2^63−1", ErrFrame, h.Length)
	case (h.Kind != Alive) != (h.Number != 0): // all others are numbered
		return fmt.Errorf("%w: number %d on a frame of kind %v", ErrFrame, h.Number, h.Kind)
	}
	return nil
}
