package codec_test

import (
	"bytes"
	"testing"

	"github.com/coppice-go/coppice/internal/codec"
)

func BenchmarkFor(b *testing.B) {
	for b.Loop() {
		if _, err := codec.For[[]float64](); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCopy is the baseline for plain memory.
func BenchmarkCopy(b *testing.B) {
	from, to := make([]byte, 1<<20), make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	for b.Loop() {
		copy(to, from)
	}
}

// BenchmarkClone is the baseline for decoding into newly allocated memory.
func BenchmarkClone(b *testing.B) {
	from := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	var to []byte
	for b.Loop() {
		to = bytes.Clone(from)
	}
	_ = to
}

func BenchmarkInt(b *testing.B)    { bench(b, 42) }
func BenchmarkFloats(b *testing.B) { bench(b, make([]float64, 1<<17)) }
func BenchmarkBools(b *testing.B)  { bench(b, make([]bool, 1<<20)) }
func BenchmarkPadded(b *testing.B) { bench(b, make([]padded, 1<<15)) }
func BenchmarkKMeans(b *testing.B) { bench(b, kmeans{1, make([]float64, 1<<17)}) }

func bench[T any](b *testing.B, v T) {
	c := codecOf[T](b)
	data, err := c.Append(nil, &v)
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	dst := make([]byte, 0, len(data))
	var back T
	run("View", func() error { c.View(&v); return nil })
	run("Append", func() error { _, err := c.Append(dst, &v); return err })
	run("Decode", func() error { return c.Decode(data, &back, false) })
	run("Adopt", func() error { return c.Decode(data, &back, true) })
	run("Into", func() error { _, err := c.DecodeInto(data, v); return err })
}
