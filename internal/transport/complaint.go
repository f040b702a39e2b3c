package transport

import (
	"log/slog"
	"sync"
	"time"
)

// complaint logs what others can make happen as often as they like: the first
// time at once, then no more than a line in complainEvery, with how often it
// happened since the last.
type complaint struct {
	log   *slog.Logger
	what  string
	mu    sync.Mutex
	since int
	err   error // the last
	next  time.Time
}

const complainEvery = 10 * time.Second

func (c *complaint) about(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since++
	c.err = err
	if now := time.Now(); !now.Before(c.next) {
		c.next = now.Add(complainEvery)
		c.say()
	}
}

func (c *complaint) say() {
	c.log.Warn(c.what, "count", c.since, "last", c.err)
	c.since = 0
}

// rest logs what was not yet logged.
func (c *complaint) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since > 0 {
		c.say()
	}
}
