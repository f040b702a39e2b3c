package node

import (
	"context"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol"
)

// TestWaitsAfterIdlenessAreLookedAfter: a process at rest does not patrol; as soon as a call waits, it
// does, also if it has something else to do soon.
func TestWaitsAfterIdlenessAreLookedAfter(t *testing.T) {
	j := start(t, transport.Unix, 2, nil)
	p := j.ps[0]
	patrols := func(want bool) bool {
		p.engine.Lock()
		defer p.engine.Unlock()
		return (p.patrols.next != protocol.Never) == want
	}
	until := func(want bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !patrols(want); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the process patrols: %v", !want)
			}
		}
	}
	until(false)
	p.engine.Lock()
	p.engine.At(p.engine.Now()+patrolEvery/2, func() {})
	p.engine.Unlock()
	ctx, cancel := context.WithCancel(patience(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = p.World(0).Recv(ctx, 1, 1, 1, "bytes")
	}()
	until(true)
	cancel()
	<-ended
}
