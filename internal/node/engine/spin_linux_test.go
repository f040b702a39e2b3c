package engine

import (
	"context"
	"errors"
	"testing"
	"time"
)

// spinner is a handler that ends a caller's context while the caller spins, and consumes the wake for
// that as another goroutine would.
type spinner struct {
	e      *Engine
	cancel func()
}

func (s *spinner) Visited()       {}
func (s *spinner) Ready(Ready)    {}
func (s *spinner) Look()          {}
func (s *spinner) Spins() bool    { return true }
func (s *spinner) Sleeps()        {}
func (s *spinner) Undriven()      {}
func (s *spinner) Unshared() bool { return false }

func (s *spinner) Read() int {
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
		s.e.Unlock()
		time.Sleep(20 * time.Millisecond) // the wake comes
		s.e.Lock()
		s.e.poll.woken()
	}
	return 0
}

func TestTheEndOfAContextIsSeenByWhoSpins(t *testing.T) {
	s := &spinner{}
	s.e = New(Config{Handler: s, Spin: true, Pause: time.Second})
	if err := s.e.Poll(); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		s.e.Lock()
		defer s.e.Unlock()
		done <- s.e.Wait(ctx, s.e.Waiter())
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it sleeps")
	}
}
