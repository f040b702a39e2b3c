//go:build linux

package segment

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMarksAreTakenOnce(t *testing.T) {
	in, err := NewInbox(300)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	peer, err := OpenInbox(in.File())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	want := []int{0, 63, 64, 299}
	for range 2 {
		for _, rank := range want {
			if peer.Mark(rank) {
				t.Error("it does not sleep")
			}
		}
	}
	var got []int
	take := func() []int {
		got = nil
		in.Take(func(rank int) { got = append(got, rank) })
		return got
	}
	if !in.Marked() || !slices.Equal(take(), want) || in.Marked() || len(take()) != 0 {
		t.Errorf("%v are taken, want %v once", got, want)
	}
	in.Sleep()
	if !peer.Mark(5) {
		t.Error("nobody wakes it")
	}
	in.Wake()
	if peer.Mark(5) {
		t.Error("it is awake")
	}
	peer.Mark(1 << 20) // there is no room for it
}

// TestMemoryThatCanBeCutShortIsRefused: to touch a page that is gone would end this process.
func TestMemoryThatCanBeCutShortIsRefused(t *testing.T) {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "test")
	defer f.Close()
	if err := f.Truncate(int64(PairLen(RingMin))); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := OpenPair(f); err == nil {
		t.Error("rings")
	}
	if _, err := OpenInbox(f); err == nil {
		t.Error("inbox")
	}
	made, memory, err := NewPair(RingMin)
	if err != nil {
		t.Fatal(err)
	}
	defer ClosePair(memory)
	defer made.Close()
	if made.Truncate(0) == nil {
		t.Error("its length changes")
	}
}
