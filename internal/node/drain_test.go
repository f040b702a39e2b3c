package node

import (
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
)

// A process that leaves does not wait for others that left without a goodbye: they may have left at
// once.
func TestProcessLeavesThatIsAlone(t *testing.T) {
	const silence = 2 * time.Second
	j := start(t, transport.TCP, 3, func(c *Config) {
		c.Silence, c.Moves = silence, true
		c.Adopt = func(int, int, int) {}
	})
	j.each(func(m *Member) error {
		_, err := m.Do(t.Context(), &Call{Plan: BarrierPlan()})
		return err
	})
	p := j.ps[1]
	drained := p.Drain()
	select {
	case why := <-drained:
		t.Fatalf("it may go while others are there: %d", why)
	case <-time.After(silence / 4):
	}
	began := time.Now()
	for _, other := range []*Process{j.ps[0], j.ps[2]} {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
	select {
	case why := <-drained:
		t.Logf("%d after %v", why, time.Since(began))
	case <-time.After(hangTime):
		t.Fatal("it waits though nobody is there")
	}
	if took := time.Since(began); took > 2*silence {
		t.Errorf("it took %v", took)
	}
	j.ps = j.ps[1:2]
	j.hosts[1].mu.Lock()
	j.hosts[1].suspects = nil // the others left without a goodbye
	j.hosts[1].mu.Unlock()
}
