package engine

import (
	"container/heap"
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

type timers []timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at < t[j].at }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = timer{}
	*t = old[:len(old)-1]
	return last
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
	heap.Push(&e.timers, timer{at, do})
	if e.asleep != nil && e.timers[0].at == at { // whoever sleeps would sleep too long
		e.poll.wake()
	}
}

// untilTimer is how long the next timer is away; negative if there is none.
func (e *Engine) untilTimer() time.Duration {
	if len(e.timers) == 0 {
		return -1
	}
	return max(time.Duration(e.timers[0].at-e.Now()), 0)
}

// Timers is how many there are.
func (e *Engine) Timers() int { return len(e.timers) }

// Fire does what is due.
func (e *Engine) Fire() {
	for len(e.timers) > 0 && e.timers[0].at <= e.Now() {
		heap.Pop(&e.timers).(timer).do()
	}
}
