//go:build linux

package segment

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// TestARingIsAQueueOfBytes: whatever is written and read in whichever pieces, it reads like a slice to which bytes are appended and
// from which they are taken.
func TestARingIsAQueueOfBytes(t *testing.T) {
	memory := aligned(PairLen(RingMin))
	rapid.Check(t, func(t *rapid.T) {
		clear(memory[:pairHead])
		in, _, err := Pair(memory, false)
		if err != nil {
			t.Fatal(err)
		}
		_, out, _ := Pair(memory, true)
		var queue []byte
		next := byte(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.IntRange(0, 2*RingMin).Draw(t, "bytes")
			if rapid.Bool().Draw(t, "write") {
				b := make([]byte, n)
				for i := range b {
					next++
					b[i] = next
				}
				published := 0
				took, err := out.Write(b, func() { published++ })
				if want := min(n, RingMin-len(queue)); err != nil || took != want || (published > 0) != (took > 0) {
					t.Fatalf("%d of %d bytes are taken, want %d; %v; published %d times", took, n, want, err, published)
				}
				queue = append(queue, b[:took]...)
				next -= byte(n - took)
				continue
			}
			b := make([]byte, n)
			got, awaited, err := in.Read(b)
			if want := min(n, len(queue)); err != nil || awaited || got != want || !bytes.Equal(b[:got], queue[:got]) {
				t.Fatalf("%d of %d bytes are read, want %d; %v; awaited %v", got, n, want, err, awaited)
			}
			queue = queue[got:]
			if in.Empty() != (len(queue) == 0) {
				t.Fatalf("empty: %v, with %d bytes", in.Empty(), len(queue))
			}
		}
	})
}

// TestReferencesKeepTheirPlace: a reader gets bytes of the ring and bytes that the writer has referred to in the order in which
// they were written, whatever is read at once; and a reference more than there is room for is refused.
func TestReferencesKeepTheirPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		memory := aligned(PairLen(RingMin))
		in, _, _ := Pair(memory, false)
		_, out, _ := Pair(memory, true)
		in.Pull(func(b []byte, address uint64) error { return PullFrom(os.Getpid(), b, address) })
		var want, got []byte
		var kept [][]byte
		refused := 0
		for i := range 100 {
			b := bytes.Repeat([]byte{byte(i)}, 1+rng.IntN(2*ReferMin))
			if out.Refer(b) {
				kept = append(kept, b)
			} else {
				if len(b) >= ReferMin {
					refused++
				}
				n, err := out.Write(b, func() {})
				if err != nil {
					t.Fatal(err)
				}
				b = b[:n]
			}
			want = append(want, b...)
			for rng.IntN(1+i%5) == 1 {
				room := make([]byte, rng.IntN(40_000))
				n, _, err := in.Read(room)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, room[:n]...)
			}
		}
		for !in.Empty() {
			room := make([]byte, 1+rng.IntN(40_000))
			n, _, err := in.Read(room)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, room[:n]...)
		}
		if !bytes.Equal(got, want) {
			t.Fatal("other bytes than were written")
		}
		runtime.KeepAlive(kept)
		if refused == 100 || len(kept) == 0 {
			t.Fatal("nothing was referred to")
		}
	}
}

// aligned is memory for rings of this process alone.
func aligned(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n)
}

// TestWhatIsNotPublishedDoesNotExist: a writer that is killed between any two of its stores has published all of a piece or nothing of it.
func TestWhatIsNotPublishedDoesNotExist(t *testing.T) {
	for killed := range 200 { // after so many bytes have been copied, but before they are published
		memory := aligned(PairLen(RingMin))
		in, _, _ := Pair(memory, false)
		_, out, _ := Pair(memory, true)
		if n, err := out.Write([]byte("published"), func() {}); n != 9 || err != nil {
			t.Fatal(n, err)
		}
		in.Pull(func([]byte, uint64) error { return errors.New("a reference that was not published") })
		copy(out.ring[out.written:], bytes.Repeat([]byte{0xee}, killed))
		out.at.refs[out.refs] = reference{out.written, uint64(killed), ReferMin}
		b := make([]byte, RingMin)
		if n, _, err := in.Read(b); string(b[:n]) != "published" || err != nil {
			t.Fatalf("killed after %d bytes: %q, %v", killed, b[:n], err)
		}
		if n, _, err := in.Read(b); n != 0 || err != nil || !in.Empty() {
			t.Fatalf("killed after %d bytes: %d more, %v", killed, n, err)
		}
	}
}

// TestPositionsThatCannotBeRight: a peer that writes anything anywhere gets ErrDamaged, or other bytes than it meant to send.
func TestPositionsThatCannotBeRight(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	damaged, piece := 0, make([]byte, ReferMin)
	for range 20_000 {
		memory := aligned(PairLen(RingMin))
		in, out, _ := Pair(memory, false)
		in.Pull(func([]byte, uint64) error { return nil })
		b := make([]byte, 1+rng.IntN(2*RingMin))
		for range 4 {
			for i := 0; i < 2*endsLen; i += 8 {
				if rng.IntN(3) == 0 {
					*(*uint64)(unsafe.Pointer(&memory[i])) = rng.Uint64() >> rng.IntN(64)
				}
			}
			n, _, err := in.Read(b)
			if n > len(b) || err != nil && err != ErrDamaged && err != io.ErrUnexpectedEOF {
				t.Fatal(n, err)
			}
			if err == ErrDamaged {
				damaged++
			}
			out.Refer(piece)
			if n, err := out.Write(b, func() {}); n > len(b) || err != nil && err != ErrDamaged {
				t.Fatal(n, err)
			} else if err == ErrDamaged {
				damaged++
			}
			in.Empty()
		}
	}
	if damaged < 1000 {
		t.Errorf("%d are found to be damaged", damaged)
	}
}

// TestNoRoomIsLostBetweenTwoProcesses: one goroutine writes what another one reads, as fast as they can, with a ring that is much smaller.
func TestNoRoomIsLostBetweenTwoProcesses(t *testing.T) {
	memory := aligned(PairLen(RingMin))
	in, _, _ := Pair(memory, false)
	_, out, _ := Pair(memory, true)
	const total = 8 << 20
	var marks, rooms atomic.Int64 // stand for marks in an inbox
	go func() {
		b := make([]byte, 10_000)
		for sent := 0; sent < total; {
			n := min(len(b), total-sent)
			for i := range b[:n] {
				b[i] = byte(sent + i)
			}
			for at := 0; at < n; {
				took, err := out.Write(b[at:n], func() { marks.Add(1) })
				if err != nil {
					t.Error(err)
					return
				}
				if at += took; at < n {
					seen := rooms.Load()
					out.Await(true)
					if room, err := out.Room(); err != nil || room > 0 {
						continue
					}
					for rooms.Load() == seen {
						Yield()
					}
				}
			}
			sent += n
		}
	}()
	b := make([]byte, 7_000)
	for got := 0; got < total; {
		n, awaited, err := in.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if awaited {
			rooms.Add(1)
		}
		for i := range b[:n] {
			if b[i] != byte(got+i) {
				t.Fatalf("byte %d is %d", got+i, b[i])
			}
		}
		if got += n; n == 0 {
			Yield()
		}
	}
}

func TestLengthsThatNoPairHas(t *testing.T) {
	for _, n := range []int{0, 1, pairHead, PairLen(RingMin) - 1, PairLen(RingMin) + 2, PairLen(RingMin / 2), PairLen(2 * RingMax), PairLen(3 * RingMin)} {
		if _, _, err := Pair(aligned(max(n, 8))[:n], true); err == nil {
			t.Errorf("a pair of %d bytes", n)
		}
	}
}

// FuzzDamaged has a peer that has written anything before the rings.
func FuzzDamaged(f *testing.F) {
	f.Add(make([]byte, 2*endsLen), 100)
	f.Fuzz(func(t *testing.T, head []byte, n int) {
		memory := aligned(PairLen(RingMin))
		in, out, err := Pair(memory, false)
		if err != nil {
			t.Fatal(err)
		}
		in.Pull(func([]byte, uint64) error { return nil })
		copy(memory[:2*endsLen], head)
		b := make([]byte, n&0xffff)
		if n, _, _ := in.Read(b); n > len(b) {
			t.Fatal(n)
		}
		if n, _ := out.Write(b, func() {}); n > len(b) {
			t.Fatal(n)
		}
	})
}
