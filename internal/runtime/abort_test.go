package runtime

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A task that is run again waits for what others know to be aborted, but not longer than
// its process takes part in the job.
func TestVoteEndsWithTheProcess(t *testing.T) {
	job, err := NewLocal(2, Config{Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	p := job.Processes[0]
	p.lock()
	p.since[0] = 2 // as if a view had given it to this process
	p.unlock()
	over := errors.New("over")
	voted := make(chan error)
	go func() {
		_, err := p.World(0).DoAgreed(context.Background(), Call{Plan: BarrierPlan()})
		voted <- err
	}()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		p.lock()
		waits = len(p.aborts.waiting) > 0
		p.unlock()
	}
	p.End(over)
	select {
	case err := <-voted:
		if !errors.Is(err, over) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it still waits")
	}
}
