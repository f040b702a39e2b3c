package engine

import (
	"os"
	"syscall"
	"testing"
)

// Go's own poller is notified of ready descriptors only while a goroutine rests: otherwise each message
// would wake one of its threads, beside the one that waits.
func TestGoHearsOnlyWhileSomebodyRests(t *testing.T) {
	p, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := p.add(int(r.Fd()), 1); err != nil {
		t.Fatal(err)
	}
	heard := func() (n int) {
		var got [1]syscall.EpollEvent
		if err := p.raw.Control(func(fd uintptr) { n, err = syscall.EpollWait(int(fd), got[:], 0) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := w.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if n := heard(); n != 0 {
		t.Error("heard although nobody rests")
	}
	if got := p.rest(-1); len(got) != 1 || got[0].Data != 1 {
		t.Errorf("who rests gets %v, want the pipe", got)
	}
	if n := heard(); n != 1 {
		t.Error("not heard while somebody rests")
	}
	p.arm(false)
	if n := heard(); n != 0 {
		t.Error("heard after somebody has rested")
	}
	var b [1]byte
	if _, err := r.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	if got := p.rest(1); len(got) != 0 {
		t.Errorf("who rests gets %v, want nothing", got)
	}
	done := make(chan []Ready)
	go func() { done <- p.rest(-1) }()
	p.wake()
	if got := <-done; len(got) != 1 || got[0].Data != -1 {
		t.Errorf("who is woken gets %v", got)
	}
}
