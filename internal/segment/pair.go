package segment

import (
	"errors"
	"os"
)

// NewPair makes the memory of two rings of a size, and returns it with the file that the other process opens it with.
func NewPair(ring int) (*os.File, []byte, error) { return create("coppice-rings", PairLen(ring)) }

// OpenPair maps the rings that another process has made.
func OpenPair(f *os.File) (memory []byte, in Reader, out Writer, err error) {
	if memory, err = open(f); err != nil {
		return nil, in, out, err
	}
	if in, out, err = Pair(memory, false); err != nil {
		return nil, in, out, errors.Join(err, unmap(memory))
	}
	return memory, in, out, nil
}

// ClosePair gives the memory of two rings back.
func ClosePair(memory []byte) error { return unmap(memory) }
