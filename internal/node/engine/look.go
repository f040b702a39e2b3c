package engine

import (
	"time"

	"github.com/coppice-go/coppice/internal/segment"
)

// look is how drivers wait for memory that other processes share with this one, before they sleep.
type look struct {
	vain    int  // how often in a row it was of no use
	skips   int  // so many times a driver sleeps at once
	sockets int  // how often in a row the sockets were left out
	called  bool // the driver was called: that shows at the poller
}

const (
	// lookMax is how long a driver looks before it sleeps. It lets other processes have the processor meanwhile, so
	// it keeps none from working.
	lookMax = 2 * time.Millisecond
	// awayMax is how long the processor may be away when a driver yields it. Longer means that a process has
	// it that computes: then the kernel lets this one have it sooner if it sleeps and is woken.
	awayMax = time.Millisecond
	// aloneMax is how often it looks before it yields, if there is a processor for every process: not for long, because the
	// kernel may have put both of two processes on one.
	aloneMax = 200
	// pollEvery is how often it looks at memory before it looks at the sockets, if there are peers without shared memory.
	pollEvery = 16
	// socketsEvery is how often in a row the sockets are left out while memory has something.
	socketsEvery = 32
	// skipsMax is how often drivers sleep at once after they have looked in vain again and again.
	skipsMax = 64
)

// lookFor waits for a mark in the inbox without the kernel's help, for a while, and reports whether there is one or the driver
// is called. If not, the inbox says that the process sleeps: it does so, and only the driver changes that.
func (e *Engine) lookFor(w *Waiter, room *events, d time.Duration) bool {
	l := &e.look
	switch {
	case e.inbox.Marked():
		l.vain = 0
		return true
	case d == 0:
		l.called = true // a timer is due; the sockets may have something, too
		return true
	case w == &e.background:
	case l.skips > 0:
		l.skips--
	default:
		most := lookMax
		if d > 0 {
			most = min(most, d)
		}
		if !e.cfg.Handler.Unshared() {
			room = nil
		}
		e.Unlock()
		found, ready := e.spinLook(room, most)
		e.Lock()
		if l.called = ready || e.called.Load(); found || l.called || e.driver != w {
			l.vain = 0
			return true
		}
		if l.vain = min(l.vain+1, 8); l.vain > 2 {
			l.skips = min(1<<(l.vain-2), skipsMax)
		}
	}
	if e.driver != w {
		return true
	}
	e.inbox.Sleep()
	return e.inbox.Marked()
}

// due reports whether the sockets are to be looked at, although there is something in memory. Only the driver calls it.
func (l *look) due() bool {
	l.sockets++
	if l.called || l.sockets >= socketsEvery {
		l.called, l.sockets = false, 0
		return true
	}
	return false
}

// spinLook looks until there is a mark, the driver is called, a descriptor is ready (if there is room for events), or it is
// time to sleep. The lock is not held.
func (e *Engine) spinLook(room *events, most time.Duration) (found, ready bool) {
	began, last := time.Now(), time.Duration(0)
	for i := 1; ; i++ {
		if e.inbox.Marked() || e.called.Load() {
			return true, false
		}
		if room != nil && i%pollEvery == 0 && len(e.poll.wait(room, 0)) > 0 {
			return false, true
		}
		if e.cfg.Spin && i < aloneMax {
			continue
		}
		segment.Yield()
		now := time.Since(began)
		if now > most || now-last > awayMax {
			return e.inbox.Marked(), false
		}
		last = now
	}
}
