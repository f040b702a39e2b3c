package engine

import (
	"math/bits"

	"github.com/coppice-go/coppice/internal/large"
)

// Buffers are pieces of memory for what is received, used again as soon as the
// operation that they were for is over and nobody else refers to them: to allocate
// and clear a megabyte takes longer than to receive it.
type Buffers struct {
	Stays int // if not 0: memory of more bytes than these mostly does not come back

	free  [bufferClasses][][]byte // by the logarithm of their size
	bytes int                     // in them
}

// BufferMax is the size of the largest piece that is used again.
const BufferMax = 1 << bufferMax

const (
	bufferMin     = 12 // logarithms of the smallest and the largest
	bufferMax     = 23
	bufferClasses = bufferMax - bufferMin + 1
	buffersMax    = 64 << 20 // bytes that are kept
)

// Bytes is how many are in pieces that nobody uses.
func (b *Buffers) Bytes() int { return b.bytes }

// Get returns memory for n bytes; they are not zero.
func (b *Buffers) Get(n int) []byte {
	class := max(bits.Len(uint(n-1)), bufferMin) - bufferMin
	if class >= bufferClasses {
		return large.New(n)
	}
	if have := b.free[class]; len(have) > 0 {
		last := len(have) - 1
		m := have[last]
		have[last] = nil
		b.free[class] = have[:last]
		b.bytes -= cap(m)
		return m[:n]
	}
	if b.Stays > 0 && n > b.Stays {
		return large.New(1 << (class + bufferMin))[:n]
	}
	return make([]byte, n, 1<<(class+bufferMin))
}

// Put takes memory back that Get returned.
func (b *Buffers) Put(m []byte) {
	class := bits.Len(uint(cap(m)-1)) - bufferMin
	if class < 0 || class >= bufferClasses || cap(m) != 1<<(class+bufferMin) || b.bytes+cap(m) > buffersMax {
		return
	}
	b.bytes += cap(m)
	b.free[class] = append(b.free[class], m)
}
