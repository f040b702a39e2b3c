package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// Now is the time since the process began, in nanoseconds. It stands still while
// the lock is held: what is handled together happens at one time.
func (e *Engine) Now() protocol.Time {
	if e.time == 0 {
		e.time = protocol.Time(time.Since(e.began))
	}
	return e.time
}

// Began is when the engine was made.
func (e *Engine) Began() time.Time { return e.began }

// Skip lets time pass in which nothing ran.
func (e *Engine) Skip(d time.Duration) { e.began, e.time = e.began.Add(-d), 0 }

// timer is a moment at which something is to be done.
type timer struct {
	at protocol.Time
	do func()
}

// At does something when the time has come: whoever drives does it, or, where there is
// nothing to drive, a goroutine.
func (e *Engine) At(at protocol.Time, do func()) {
	if e.poll == nil {
		time.AfterFunc(time.Duration(at-e.Now()), func() {
			e.Lock()
			defer e.Unlock()
			if !e.stopped {
				do()
			}
		})
		return
	}
	i, _ := slices.BinarySearchFunc(e.timers, at, func(t timer, at protocol.Time) int { return cmp.Compare(at, t.at) })
	e.timers = slices.Insert(e.timers, i, timer{at, do})
	if i == len(e.timers)-1 && e.asleep != nil { // whoever sleeps would sleep too long
		e.wake()
	}
}

// untilTimer is how long the next timer is away; negative if there is none.
func (e *Engine) untilTimer() time.Duration {
	if len(e.timers) == 0 {
		return -1
	}
	return max(time.Duration(e.timers[len(e.timers)-1].at-e.Now()), 0)
}

// Timers is how many there are.
func (e *Engine) Timers() int { return len(e.timers) }

// Fire does what is due.
func (e *Engine) Fire() {
	for n := len(e.timers); n > 0 && e.timers[n-1].at <= e.Now(); n = len(e.timers) {
		do := e.timers[n-1].do
		e.timers[n-1] = timer{}
		e.timers = e.timers[:n-1]
		do()
	}
}
