package node

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Each process reports how many tasks fit into it. In Local, where all share one heap, the logs make
// the difference.
func TestLoadIsTold(t *testing.T) {
	j := start(t, memory, 3, func(c *Config) {
		c.Tasks, c.Memory, c.Adopt = 6, 1<<40, func(int, int, int) {}
	})
	for r, bytes := range []int64{1 << 39, 1 << 38, 1 << 10} {
		p := j.ps[r]
		p.engine.Lock()
		p.recovery.history.bytes = bytes
		p.tellLoad()
		p.engine.Unlock()
	}
	p := j.ps[2]
	p.engine.Lock()
	defer p.engine.Unlock()
	// Two tasks of each process take half, and a quarter, of what is allowed.
	for r, want := range []int{4, 8} {
		if got := p.views.state.LimitOf(membership.Member{ID: protocol.Rank(r), Incarnation: 1}); got != want {
			t.Errorf("process %d can own %d tasks, want %d", r, got, want)
		}
	}
}

// A process without tasks does not know what they take.
func TestSpareTakesAny(t *testing.T) {
	j := start(t, memory, 2, func(c *Config) {
		c.Owner, c.Memory, c.Adopt = []int32{0, 0}, 1, func(int, int, int) {}
	})
	for r, want := range []int{0, 1<<31 - 1} {
		p := j.ps[r]
		p.engine.Lock()
		p.recovery.history.bytes = 10
		if got := p.tasksMax(); got != want {
			t.Errorf("process %d can own %d tasks, want %d", r, got, want)
		}
		p.engine.Unlock()
	}
}
