//go:build unix

package transport_test

import (
	"testing"

	"github.com/coppice-go/coppice/internal/transport"
)

// BenchmarkMessage: one end writes 8 bytes, the other reads them, in turn.
func BenchmarkMessage(b *testing.B) {
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			x, y := pair(b, kind)
			message, buffer := [][]byte{make([]byte, 8)}, make([]byte, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if n, err := x.Write(message); n != 8 || err != nil {
					b.Fatal(n, err)
				}
				for {
					n, err := y.Read(buffer)
					if n == 8 {
						break
					}
					if err != transport.ErrAgain {
						b.Fatal(n, err)
					}
				}
			}
		})
	}
}

// BenchmarkStream: one end writes a mebibyte, the other reads it.
func BenchmarkStream(b *testing.B) {
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			x, y := pair(b, kind)
			message, buffer := make([]byte, 1<<20), make([]byte, 1<<18)
			b.SetBytes(1 << 20)
			for b.Loop() {
				for out, in := 0, 0; in < len(message); {
					n, err := x.Write([][]byte{message[out:]})
					if err != nil && err != transport.ErrAgain {
						b.Fatal(err)
					}
					out += n
					if err := x.Flush(); err != nil && err != transport.ErrAgain {
						b.Fatal(err)
					}
					n, err = y.Read(buffer)
					if err != nil && err != transport.ErrAgain {
						b.Fatal(err)
					}
					in += n
				}
			}
		})
	}
}

// BenchmarkDial: connect, make the handshake, close.
func BenchmarkDial(b *testing.B) {
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			one, two := start(b, 1, nil, place(b, kind)), start(b, 2, nil)
			b.ReportAllocs()
			for b.Loop() {
				c, err := two.dial(b, one.Addresses()[0])
				if err != nil {
					b.Fatal(err)
				}
				_ = c.Close()
				_ = one.accepted(b).Close()
			}
		})
	}
}
