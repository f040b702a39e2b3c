package engine

import "testing"

func TestBuffersAreUsedAgain(t *testing.T) {
	var b Buffers
	for _, n := range []int{1, 4096, 4097, 1 << 20, 1<<23 - 1} {
		m := b.Get(n)
		if len(m) != n {
			t.Fatalf("%d bytes, want %d", len(m), n)
		}
		b.Put(m)
		if again := b.Get(n); &again[0] != &m[0] {
			t.Errorf("%d bytes: other memory", n)
		}
		if b.Bytes() != 0 {
			t.Errorf("%d bytes are free", b.Bytes())
		}
	}
	b.Put(make([]byte, 5000)) // none of its sizes
	b.Put(nil)
	for range 100 {
		b.Put(make([]byte, 1<<20))
	}
	if b.Bytes() != buffersMax {
		t.Errorf("%d bytes are kept, want %d", b.Bytes(), buffersMax)
	}
}
