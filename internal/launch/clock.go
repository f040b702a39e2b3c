package launch

import (
	"slices"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// clock measures what a job takes its time for: how long its processes take to be
// ready, and how often its tasks save. It may be used by several goroutines.
type clock struct {
	mu     sync.Mutex
	began  map[control.Identity]time.Time // starts of those that are not ready yet
	took   []time.Duration                // of the others
	saved  time.Time                      // when the tasks did last, or the job began
	period time.Duration                  // from the Save before to that; 0: there was none
}

func newClock() clock { return clock{began: map[control.Identity]time.Time{}} }

// begin notes that processes are about to be started.
func (c *clock) begin(at time.Time, all ...control.Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range all {
		c.began[id] = at
	}
	if c.saved.IsZero() {
		c.saved = at
	}
}

// hear learns from what the coordinator tells. Events of processes have the time of
// their hosts, so that of their arrival counts.
func (c *clock) hear(e control.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch e.Type {
	case control.EventAnnounced:
		life, _ := e.Attrs["incarnation"].(uint64)
		id := control.Identity{uint64(e.Rank), life}
		if at, awaited := c.began[id]; awaited {
			c.took = append(c.took, now.Sub(at))
			delete(c.began, id)
		}
	case control.EventEpoch:
		c.period, c.saved = max(now.Sub(c.saved), 1), now
	}
}

// start is how long a process takes from its start until the others can reach it: the
// median of those that were seen; 0: none was.
func (c *clock) start() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(c.took))[len(c.took)/2]
}

// saves tells whether all tasks have saved, once or more.
func (c *clock) saves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.period > 0
}

// save is how long it takes until the tasks save next, if they go on as before; 0: they
// never have, or should have by now.
func (c *clock) save() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.period-time.Since(c.saved), 0)
}
