package launch

import (
	"slices"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// clock measures how a job spends its time: how long its processes take to become
// ready, and how often its tasks save. Several goroutines may use it.
type clock struct {
	mu     sync.Mutex
	began  map[control.Identity]time.Time // starts of processes that are not ready yet
	took   []time.Duration                // of the ready ones
	saved  time.Time                      // when the tasks last saved, or the job began
	period time.Duration                  // between the last two saves; 0: there was only one or none
}

func newClock() clock { return clock{began: map[control.Identity]time.Time{}} }

// begin records that processes are about to be started.
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

// hear learns from events of the coordinator. Events of processes have the time of
// their hosts, so the time of their arrival counts.
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

// start returns how long a process takes from its start until the others can reach it: the
// median of those seen; 0: none was.
func (c *clock) start() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(c.took))[len(c.took)/2]
}

// saves reports whether all tasks have saved at least once.
func (c *clock) saves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.period > 0
}

// save returns how long it takes until the tasks save next, if they continue as before; 0: they
// never have, or should have by now.
func (c *clock) save() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.period-time.Since(c.saved), 0)
}
