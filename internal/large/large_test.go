package large

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

func TestAppendIsAppend(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, Piece - 1, Piece, Piece + 1, 2*Piece + 3, hugePage + 1}
	for range 50 {
		var got, want []byte
		for range 3 {
			b := make([]byte, sizes[rng.IntN(len(sizes))])
			for i := 0; i < len(b); i += 1 + i/16 {
				b[i] = byte(rng.Uint32())
			}
			if rng.IntN(3) == 0 {
				got = Grow(got, rng.IntN(3*Piece))
			}
			got, want = Append(got, b), append(want, b...)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, want %d, or others", len(got), len(want))
		}
	}
}

func TestMemoryForLargeValuesIsExact(t *testing.T) {
	for _, n := range []int{0, 1, hugePage / 2, 3*hugePage + 1} {
		b := New(n)
		if len(b) != n {
			t.Errorf("%d bytes, want %d", len(b), n)
		}
		for i := range b {
			b[i] = 1
		}
	}
	if b := Append(nil, make([]byte, 64<<20)); cap(b) > 65<<20 {
		t.Errorf("room for %d bytes", cap(b))
	}
}

// Others run while a large value is copied, though there is one processor: the goroutine is preempted
// after 10 to 20 ms, before the copy is over. A goroutine that cannot be preempted in a copy is
// preempted during very few copies, by chance: just when they begin.
func TestCopiesCanBePreempted(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const size, wanted, most = 512 << 20, 5, 20
	src, dst := make([]byte, size), New(size)
	var turns, over atomic.Int64
	go func() {
		for over.Load() == 0 {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	defer over.Store(1)
	preempted, copies := 0, 0
	for ; preempted < wanted && copies < most; copies++ {
		runtime.Gosched() // earlier requests are done
		before := turns.Load()
		Copy(dst, src)
		if turns.Load() > before {
			preempted++
		}
	}
	if preempted < wanted {
		t.Errorf("others ran during %d of %d copies; want %d", preempted, copies, wanted)
	}
}

// BenchmarkCopy copies in pieces, and at once.
func BenchmarkCopy(b *testing.B) {
	for _, n := range []int{64 << 10, 1 << 20, 64 << 20} {
		src, dst := make([]byte, n), make([]byte, n)
		for name, f := range map[string]func(dst, src []byte) int{"pieces": Copy, "once": func(dst, src []byte) int { return copy(dst, src) }} {
			b.Run(fmt.Sprintf("%dKiB/%s", n>>10, name), func(b *testing.B) {
				b.SetBytes(int64(n))
				for range b.N {
					f(dst, src)
				}
			})
		}
	}
}
