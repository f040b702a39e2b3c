package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// marks is an inbox of this process alone.
type marks struct{ marked, asleep atomic.Bool }

func (m *marks) Marked() bool { return m.marked.Load() }
func (m *marks) Sleep()       { m.asleep.Store(true) }
func (m *marks) Wake()        { m.asleep.Store(false) }

// reader is a handler that completes a wait when it has looked at what was marked.
type reader struct {
	e     *Engine
	m     *marks
	w     *Waiter
	looks int
	bell  [2]int // a pipe, which stands for the socket of a peer
}

func (r *reader) Visited()       {}
func (r *reader) Ready(ev Ready) { _, _ = syscall.Read(ev.Fd, make([]byte, 64)) }
func (r *reader) Spins() bool    { return false }
func (r *reader) Read() int      { return 0 }
func (r *reader) Sleeps()        {}
func (r *reader) Undriven()      {}
func (r *reader) Unshared() bool { return false }

func (r *reader) Look() {
	if r.m.marked.Swap(false) {
		r.looks++
		r.e.Complete(r.w)
	}
}

func looking(t *testing.T) *reader {
	t.Helper()
	r := &reader{m: &marks{}}
	r.e = New(Config{Handler: r, Pause: time.Millisecond})
	if err := r.e.Poll(); err != nil {
		t.Fatal(err)
	}
	r.e.Share(r.m)
	if err := errors.Join(syscall.Pipe2(r.bell[:], syscall.O_NONBLOCK|syscall.O_CLOEXEC), r.e.Watch(r.bell[0], 1)); err != nil {
		t.Fatal(err)
	}
	r.e.Run()
	t.Cleanup(func() {
		r.e.Lock()
		r.e.Halt()
		r.e.Unlock()
		r.e.Stop()
		_, _ = syscall.Close(r.bell[0]), syscall.Close(r.bell[1])
	})
	return r
}

// mark does what a peer does.
func (r *reader) mark() {
	r.m.marked.Store(true)
	if r.m.asleep.Load() {
		_, _ = syscall.Write(r.bell[1], []byte{1})
	}
}

// TestNoMarkIsMissed: no mark is missed, whether a caller or the background drives, or one has just
// displaced the other.
func TestNoMarkIsMissed(t *testing.T) {
	r := looking(t)
	for round := range 2000 {
		waits := round%3 > 0
		done := make(chan error, 1)
		r.e.Lock()
		r.w = r.e.Waiter()
		r.e.look.skips = round % 2
		looks := r.looks
		r.e.Unlock()
		if waits {
			go func() {
				r.e.Lock()
				defer r.e.Unlock()
				done <- r.e.Wait(context.Background(), r.w)
			}()
		}
		time.Sleep(time.Duration(round%40) * 50 * time.Microsecond)
		r.mark()
		until(t, "a mark is missed", func() bool {
			r.e.Lock()
			defer r.e.Unlock()
			return r.looks > looks
		})
		if waits {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		r.e.Lock()
		r.e.Free(r.w)
		r.e.Unlock()
	}
}

// TestADriverLooksBeforeItSleeps: a mark that comes soon needs no wake-up.
func TestADriverLooksBeforeItSleeps(t *testing.T) {
	r := looking(t)
	var seen atomic.Int64
	for range 200 {
		r.e.Lock()
		r.w = r.e.Waiter()
		r.e.look = look{}
		time.AfterFunc(30*time.Microsecond, func() {
			if !r.m.asleep.Load() {
				seen.Add(1)
			}
			r.mark()
		})
		if err := r.e.Wait(context.Background(), r.w); err != nil {
			t.Fatal(err)
		}
		r.e.Free(r.w)
		r.e.Unlock()
	}
	if r.looks != 200 {
		t.Errorf("it looked %d times, want 200", r.looks)
	}
	t.Logf("%d of 200 marks came while it did not sleep", seen.Load())
}

// TestADriverThatLooksSeesSockets: a message of a peer without shared memory does not wait until the driver has looked at memory for long.
func TestADriverThatLooksSeesSockets(t *testing.T) {
	for _, unshared := range []bool{false, true} {
		e := New(Config{})
		if err := e.Poll(); err != nil {
			t.Fatal(err)
		}
		e.Share(&marks{})
		var bell [2]int
		if err := errors.Join(syscall.Pipe2(bell[:], syscall.O_NONBLOCK|syscall.O_CLOEXEC), e.Watch(bell[0], 1)); err != nil {
			t.Fatal(err)
		}
		_, _ = syscall.Write(bell[1], []byte{1})
		var room *events
		if unshared {
			room = &events{}
		}
		until(t, "a socket is not looked at", func() bool { // a look ends early if others have the processor meanwhile
			found, ready := e.spinLook(room, time.Millisecond)
			if found || ready && !unshared {
				t.Fatalf("peers without shared memory: %v; found %v, ready %v", unshared, found, ready)
			}
			return ready || !unshared
		})
		_, _ = syscall.Close(bell[0]), syscall.Close(bell[1])
		e.poll.close()
	}
}

// TestLookingInVainEnds: a driver that has looked repeatedly and found nothing sleeps at once, so that
// idle processes cost nothing.
func TestLookingInVainEnds(t *testing.T) {
	r := looking(t)
	r.e.Lock()
	defer r.e.Unlock()
	until(t, "it goes on looking", func() bool { // a look that is interrupted by the end of the context was not in vain
		r.w = r.e.Waiter()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		if err := r.e.Wait(ctx, r.w); err == nil {
			t.Fatal("it is complete")
		}
		cancel()
		r.e.Free(r.w)
		return r.e.look.vain >= 3 && r.e.look.skips > 0
	})
}

// until waits for what must happen, even on a busy machine.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !happened(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
