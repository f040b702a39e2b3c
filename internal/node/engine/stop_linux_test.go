package engine

import (
	"context"
	"testing"
	"time"
)

// TestStopDoesNotWaitForOneThatRests: a caller displaces the background, and sees all calls that the background is to see.
func TestStopDoesNotWaitForOneThatRests(t *testing.T) {
	for round := range 300 {
		h := &reader{m: &marks{}}
		h.e = New(Config{Handler: h, Pause: 50 * time.Microsecond})
		if err := h.e.Poll(); err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			h.e.Share(h.m)
		}
		h.e.Run()
		until(t, "the background does not rest", func() bool {
			h.e.Lock()
			defer h.e.Unlock()
			return h.e.rests
		})
		done := make(chan error, 1)
		go func() {
			h.e.Lock()
			defer h.e.Unlock()
			done <- h.e.Wait(context.Background(), h.e.Waiter())
		}()
		until(t, "the caller does not drive", func() bool {
			h.e.Lock()
			defer h.e.Unlock()
			return h.e.driver != nil && !h.e.Background() && h.e.asleep != nil
		})
		h.e.Lock()
		h.e.Halt()
		h.e.Unlock()
		stopped := make(chan struct{})
		go func() {
			h.e.Stop()
			close(stopped)
		}()
		select {
		case <-stopped:
		case <-time.After(20 * time.Second):
			t.Fatal("the engine does not stop")
		}
		<-done
	}
}
