package codec

import (
	"bytes"
	"testing"
)

func TestCloneAligned(t *testing.T) {
	b := []byte("some bytes, and not a multiple of eight")
	for n := range b {
		// No memory has the second alignment: words have to do.
		for _, align := range []int{alignMax, 1 << 60} {
			c := cloneAligned(b[1:][:n], align)
			if !bytes.Equal(c, b[1:][:n]) || n > 0 && (&c[0] == &b[1] || !aligned(c, 8) && n%8 == 0) {
				t.Errorf("%d bytes, aligned to %d: %q", n, align, c)
			}
		}
	}
}
