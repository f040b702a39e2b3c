package engine

import (
	"time"

	"github.com/coppice-go/coppice/internal/segment"
)

// look is how a driver waits for memory that other processes share with this one, before it sleeps.
type look struct {
	idle    int // how often in a row it was in vain
	skips   int // it sleeps at once so many times
	sockets int // how often the sockets were left out in a row
	late    bool
}

const (
	// lookMax is how long a driver looks before it sleeps. It lets other processes have the processor meanwhile, so
	// it keeps nobody from working.
	lookMax = 300 * time.Microsecond
	// yieldMax is how long the processor may be away when the driver yields it. Longer means that a process has
	// it that computes: then the kernel lets this one have it sooner if it sleeps and is woken.
	yieldMax = 100 * time.Microsecond
	// aloneMax is how often it looks before it yields, if there is a processor for every process.
	aloneMax = 2000
	// socketsEvery is how often in a row the sockets are left out while memory has something.
	socketsEvery = 32
	// skipsMax is how often a driver sleeps at once after it has looked in vain again and again.
	skipsMax = 64
)

// due reports whether the sockets are to be looked at, although there is something in memory. The lock is not held.
func (l *look) due() bool {
	l.sockets++
	if l.late || l.sockets >= socketsEvery {
		l.late, l.sockets = false, 0
		return true
	}
	return false
}

// lookFor waits for a mark in the inbox without the help of the kernel, for a while and no longer than d, and reports whether
// there is one, or the driver is called. If not, the process has said that it sleeps. The lock is not held.
func (e *Engine) lookFor(w *Waiter, d time.Duration) bool {
	in := e.inbox
	if in == nil {
		return false
	}
	if in.Marked() {
		e.look.idle = 0
		return true
	}
	if w != &e.background && d != 0 {
		if e.look.skips > 0 {
			e.look.skips--
		} else if e.spinLook(in, d) {
			return true
		}
	}
	in.Sleep()
	if in.Marked() || d == 0 {
		in.Wake()
		e.look.late = d == 0
		return true
	}
	return false
}

// spinLook looks until there is something, or it is time to sleep.
func (e *Engine) spinLook(in Inbox, d time.Duration) bool {
	most := lookMax
	if d > 0 {
		most = min(most, d)
	}
	began := time.Now()
	last := time.Duration(0)
	for i := 0; ; i++ {
		if in.Marked() {
			e.look.idle = 0
			return true
		}
		if e.called.Load() {
			e.look.late = true
			return true
		}
		if e.cfg.Spin && i < aloneMax {
			continue
		}
		segment.Yield()
		now := time.Since(began)
		if now-last > yieldMax || now > most {
			break
		}
		last = now
	}
	if e.look.idle = min(e.look.idle+1, 8); e.look.idle > 2 {
		e.look.skips = min(1<<(e.look.idle-2), skipsMax)
	}
	return in.Marked()
}
