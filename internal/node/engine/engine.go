// Package engine has the lock of a process, and what goes with it: the clock and the timers,
// those who wait, and who of them drives.
//
// Nothing is handed from goroutine to goroutine on the way of a message. A caller that waits
// drives progress itself: it waits for the sockets, has the handler read what is there, and
// leaves when what it waits for is complete. If several callers wait, one drives and hands that
// role on when it leaves. While nobody waits a background goroutine drives, so that a process
// busy computing still forwards, answers and notices; it takes over after a moment in which
// nobody waited, because to displace it costs a system call. Between processes that are
// goroutines there is nothing to wait for: who sends visits the receiver.
//
// An engine knows no protocol. All methods but Lock and Stop are called with the lock held.
package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// Handler does what an engine finds to be done, with the lock held.
type Handler interface {
	Visited()          // another process has put something here
	Ready(ev Ready)    // a descriptor is ready
	Spins() bool       // there are so few connections that it may be of use to look for input on all of them
	Read() (bytes int) // do so; so many bytes have moved
	Sleeps()           // a caller is about to sleep
	Undriven()         // nobody drives any more
	Look()             // look at what the Inbox has marked
	Unshared() bool    // some connections do not mark the Inbox
}

// Inbox is where other processes mark that they have written to memory that they share with this one.
type Inbox interface {
	Marked() bool // there is something to look at
	Sleep()       // from now on whoever marks something wakes this process
	Wake()        // it does not sleep any more
}

// Config says how an engine runs.
type Config struct {
	Handler Handler
	Spin    bool          // a processor for every process of this host: waiters may spin
	Pause   time.Duration // the background drives after nobody has waited for so long
}

// ErrStopped is what those get who wait for an engine that has stopped.
var ErrStopped = errors.New("the job is over")

// Engine is that of one process.
type Engine struct {
	cfg   Config
	began time.Time

	Buffers Buffers // for who has the lock

	mu        sync.Mutex
	time      protocol.Time // now, once somebody has asked while the lock is held
	worked    int           // bytes copied and combined since the lock was taken
	workedMax int           // the most of them
	timers    []timer       // the earliest last, of those at one time the first
	free      []*Waiter
	signals   []*Waiter // to be woken when the lock is given back
	visits    []*Engine // to be visited then
	stopped   bool
	still     atomic.Bool // nobody visits

	poll       *poller // nil: there are no sockets
	driver     *Waiter
	asleep     *Waiter // the driver, while it waits for sockets
	drives     uint64
	spins      uint64
	vain       int   // how often spinning was of no use lately
	inbox      Inbox // nil: no memory is shared with other processes
	look       look
	called     atomic.Bool // wake was called, and the driver has not seen it yet
	background Waiter
	standing   []*Waiter
	resting    bool
	rests      bool // the background is in poller.rest
	rested     chan struct{}
	hurry      chan struct{} // the background is to drive at once
	ended      chan struct{} // closed when the background has; nil: it never began
	watched    <-chan struct{}
	unwatch    func() bool
	leaving    chan struct{} // Stop waits for the driver to leave
}

// New returns an engine without sockets.
func New(cfg Config) *Engine { return &Engine{cfg: cfg, began: time.Now()} }

// Poll makes it one with sockets. Run has them looked after while nobody waits.
func (e *Engine) Poll() (err error) {
	e.rested, e.hurry = make(chan struct{}, 1), make(chan struct{}, 1)
	e.poll, err = newPoller()
	return err
}

// Share has it look at an inbox, too. It is called before Run.
func (e *Engine) Share(in Inbox) { e.inbox = in }

// Run starts the background goroutine.
func (e *Engine) Run() {
	e.ended = make(chan struct{})
	go e.inBackground()
}

// Lock takes the lock.
func (e *Engine) Lock() {
	e.mu.Lock()
	e.time, e.worked = 0, 0
}

// Unlock gives the lock back, then visits those to whom something was sent, and wakes those
// whose waits have ended.
func (e *Engine) Unlock() {
	if len(e.visits)+len(e.signals) == 0 {
		e.mu.Unlock()
		return
	}
	var few [16]*Engine
	var some [32]*Waiter
	to := append(few[:0], e.visits...)
	wake := append(some[:0], e.signals...)
	e.visits, e.signals = e.visits[:0], e.signals[:0]
	e.mu.Unlock()
	for i := 0; i < len(to); i++ {
		v := to[i]
		if v.still.Load() { // it looks itself what has come, afterwards
			continue
		}
		v.Lock()
		v.cfg.Handler.Visited()
		to = append(to, v.visits...)
		wake = append(wake, v.signals...)
		v.visits, v.signals = v.visits[:0], v.signals[:0]
		v.mu.Unlock()
	}
	for _, w := range wake { // who wakes now finds the locks free
		w.signal()
	}
}

// Visit has the engine of another process visited when the lock is given back.
func (e *Engine) Visit(v *Engine) { e.visits = append(e.visits, v) }

// Still stops the process until f returns. Others can go on sending to it.
func (e *Engine) Still(f func()) {
	e.still.Store(true)
	f()
	e.still.Store(false)
	e.time = 0
	e.Visit(e)
}

// Work takes note that n bytes are copied or combined while the lock is held.
func (e *Engine) Work(n int) {
	e.worked += n
	e.workedMax = max(e.workedMax, e.worked)
}

// Worked is how many bytes that were since the lock was taken, and WorkedMax the most ever.
func (e *Engine) Worked() int { return e.worked }

// WorkedMax is the most bytes that were copied or combined while the lock was held.
func (e *Engine) WorkedMax() int { return e.workedMax }

// Watch watches a descriptor for input; data comes back with what is found.
func (e *Engine) Watch(fd int, data int32) error { return e.poll.add(fd, data) }

// WatchOutput changes whether it is watched for room for output, too.
func (e *Engine) WatchOutput(fd int, data int32, on bool) { _ = e.poll.output(fd, data, on) }

// Unwatch ends that.
func (e *Engine) Unwatch(fd int) { e.poll.remove(fd) }

// Polls reports whether there are sockets.
func (e *Engine) Polls() bool { return e.poll != nil }

// Drives is how many callers have driven.
func (e *Engine) Drives() uint64 { return e.drives }

// Quiet reports whether no caller waits.
func (e *Engine) Quiet() bool {
	return len(e.standing) == 0 && e.driver == nil || e.Background()
}

// Standing is how many callers wait beside one that drives; rests: the background is of no help.
func (e *Engine) Standing() (n int, rests bool) {
	return len(e.standing), e.driver != nil && !e.Background() && e.resting
}

// Background reports whether the background drives.
func (e *Engine) Background() bool { return e.driver == &e.background }

// Hurry has the background drive at once, if nobody does.
func (e *Engine) Hurry() {
	if e.poll == nil || e.driver != nil {
		return
	}
	select {
	case e.hurry <- struct{}{}:
	default:
	}
}

// Stopped reports whether Halt was called.
func (e *Engine) Stopped() bool { return e.stopped }

// Halt ends all waits, now and later.
func (e *Engine) Halt() {
	e.stopped = true
	if e.poll == nil {
		return
	}
	if e.unwatch != nil {
		e.unwatch()
	}
	e.resting = false
	select {
	case e.rested <- struct{}{}:
	default:
	}
	e.wake()
}

// Stop waits, after Halt if there was a Run, until nobody drives, and closes the poller. The lock is not held.
func (e *Engine) Stop() {
	if e.ended != nil {
		<-e.ended
	}
	e.Lock()
	defer e.Unlock()
	if e.driver != nil { // it is on its way out
		left := make(chan struct{})
		e.leaving = left
		e.wake()
		e.Unlock()
		<-left
		e.Lock()
	}
	e.poll.close()
}

// wake makes the driver look again.
func (e *Engine) wake() {
	e.called.Store(true)
	e.poll.wake()
}

// Again has the driver look at the Inbox, if it is waiting: this process has marked something itself.
func (e *Engine) Again() {
	if e.asleep != nil {
		e.wake()
	}
}

// wakeOn sees to it that the driver wakes when ctx ends.
func (e *Engine) wakeOn(ctx context.Context) {
	done := ctx.Done()
	if done == nil || done == e.watched {
		return
	}
	if e.unwatch != nil {
		e.unwatch()
	}
	e.watched = done
	e.unwatch = context.AfterFunc(ctx, e.wakeDriver)
}

// wakeDriver wakes whoever drives, unless it is too late for that.
func (e *Engine) wakeDriver() {
	e.Lock()
	defer e.Unlock()
	if !e.stopped {
		e.wake()
	}
}
