package node

import (
	"container/heap"
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// now is the time since the process began, in nanoseconds. It stands still while
// the lock is held: what is handled together happens at one time.
func (p *Process) now() protocol.Time {
	if p.time == 0 {
		p.time = protocol.Time(time.Since(p.began))
	}
	return p.time
}

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

// at does something, with the lock held, when the time has come: whoever
// drives does it, or, where there is nothing to drive, a goroutine.
func (p *Process) at(at protocol.Time, do func()) {
	if p.poll == nil {
		time.AfterFunc(time.Duration(at-p.now()), func() {
			p.lock()
			defer p.unlock()
			if !p.closed {
				do()
			}
		})
		return
	}
	heap.Push(&p.timers, timer{at, do})
	if p.asleep != nil && p.timers[0].at == at { // whoever sleeps would sleep too long
		p.poll.wake()
	}
}

// untilTimer is how long the next timer is away; negative if there is none.
func (p *Process) untilTimer() time.Duration {
	if len(p.timers) == 0 {
		return -1
	}
	return max(time.Duration(p.timers[0].at-p.now()), 0)
}

// fire does what is due.
func (p *Process) fire() {
	for len(p.timers) > 0 && p.timers[0].at <= p.now() {
		heap.Pop(&p.timers).(timer).do()
	}
}
