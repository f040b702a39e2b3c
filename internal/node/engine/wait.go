package engine

import (
	"context"
	"slices"
	"time"
)

// Waiter is a caller that waits for something.
type Waiter struct {
	done  bool
	ready chan struct{} // has room for one; made when needed
}

// Done reports whether what it waits for is complete.
func (w *Waiter) Done() bool { return w.done }

// Reset makes it a new waiter.
func (w *Waiter) Reset() {
	w.done = false
	if w.ready != nil {
		select {
		case <-w.ready:
		default:
		}
	}
}

// signal makes it look again.
func (w *Waiter) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// Waiter returns a waiter, used before if there is one.
func (e *Engine) Waiter() *Waiter {
	n := len(e.free)
	if n == 0 {
		return &Waiter{}
	}
	w := e.free[n-1]
	e.free = e.free[:n-1]
	return w
}

// Free gives back a waiter that nobody refers to any more.
func (e *Engine) Free(w *Waiter) {
	w.Reset()
	e.free = append(e.free, w)
}

// Line is callers that wait until something has changed, and then look whether it is what they wait for.
type Line []*Waiter

// Stand waits in a line until those who are in it are to look again.
func (e *Engine) Stand(ctx context.Context, l *Line) error {
	w := &Waiter{}
	*l = append(*l, w)
	err := e.Wait(ctx, w)
	if err != nil {
		*l = slices.DeleteFunc(*l, func(o *Waiter) bool { return o == w })
	}
	return err
}

// LookAgain has all look again who are in a line.
func (e *Engine) LookAgain(l *Line) {
	for _, w := range *l {
		e.Complete(w)
	}
	*l = (*l)[:0]
}

// Complete ends a wait.
func (e *Engine) Complete(w *Waiter) {
	if w == nil || w.done {
		return
	}
	w.done = true
	if w == e.driver {
		if e.asleep == w {
			e.wake()
		}
		return
	}
	e.signal(w)
}

// signal makes a waiter that does not drive look again, once the lock is given back.
func (e *Engine) signal(w *Waiter) {
	if w.ready != nil {
		e.signals = append(e.signals, w)
	}
}

// Wait waits until w is complete or ctx is done.
func (e *Engine) Wait(ctx context.Context, w *Waiter) error {
	for !w.done {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.stopped {
			return ErrStopped
		}
		if e.poll == nil || e.driver != nil && e.driver != &e.background {
			e.stand(ctx, w)
			continue
		}
		if e.driver == &e.background && e.asleep == &e.background {
			e.wake() // it sees that somebody else drives, and rests
		}
		e.wakeOn(ctx)
		e.drives++
		e.driver = w
		e.drive(ctx, w, e.cfg.Spin)
		e.driver = nil
		e.handOver()
		if e.rests {
			// The background has not left yet: the call for that may have been seen by this driver. While it stays, nobody
			// looks at the inbox, which does not say that the process sleeps, or at new timers; and Stop waits for it.
			e.poll.wake()
		}
		if e.leaving != nil {
			close(e.leaving)
			e.leaving = nil
		}
	}
	return nil
}

// stand waits beside the one who drives.
func (e *Engine) stand(ctx context.Context, w *Waiter) {
	if w.ready == nil {
		w.ready = make(chan struct{}, 1)
	}
	e.standing = append(e.standing, w)
	e.Unlock()
	if done := ctx.Done(); done == nil {
		<-w.ready
	} else {
		select {
		case <-w.ready:
		case <-done:
		}
	}
	e.Lock()
	if i := slices.Index(e.standing, w); i >= 0 {
		last := len(e.standing) - 1
		e.standing[i], e.standing[last] = e.standing[last], nil
		e.standing = e.standing[:last]
	}
	if e.poll != nil && e.driver == nil && (w.done || ctx.Err() != nil) {
		e.handOver() // it may have been asked to drive, and does not
	}
}

// handOver asks another waiter to drive, or tells the background that it may
// have to.
func (e *Engine) handOver() {
	for _, w := range e.standing {
		if !w.done {
			e.signal(w)
			return
		}
	}
	if e.resting {
		e.resting = false
		e.rested <- struct{}{}
	}
	e.cfg.Handler.Undriven()
}

// drive makes progress until w is complete, ctx is done or somebody else drives.
func (e *Engine) drive(ctx context.Context, w *Waiter, spin bool) {
	var room events
	for waits := false; ; waits = true {
		if e.inbox == nil && spin && e.spinFor(w) {
			e.Fire()
			return
		}
		if !waits && w != &e.background {
			e.cfg.Handler.Sleeps()
		}
		if ctx.Err() != nil { // that it ended may be known to nobody but the one who drove before
			return
		}
		e.asleep = w
		got := e.sleep(w, &room)
		if e.asleep == w {
			e.asleep = nil
		}
		e.react(got)
		if e.inbox != nil && e.driver == w { // otherwise another driver may rely on being woken
			e.inbox.Wake()
			e.cfg.Handler.Look()
		}
		e.Fire()
		if w.done || e.driver != w || e.stopped || ctx.Err() != nil {
			return
		}
	}
}

// sleep waits until something is to be done, and returns which descriptors are ready.
func (e *Engine) sleep(w *Waiter, room *events) (got []Ready) {
	d := e.untilTimer()
	found, sockets := false, true
	if e.inbox != nil {
		if found = e.lookFor(w, room, d); found {
			sockets = e.look.due()
		} else {
			d = e.untilTimer()
		}
	}
	rests := !found && w == &e.background
	e.rests = e.rests || rests
	e.Unlock()
	switch {
	case !sockets:
	case found:
		got = e.poll.wait(room, 0)
	case rests:
		got = e.poll.rest(d)
	default:
		got = e.poll.wait(room, d)
	}
	e.Lock()
	e.rests = e.rests && !rests
	return got
}

// Ready is a descriptor with input or room for output, and the data that was passed to Watch.
type Ready struct {
	Fd            int
	Data          int32
	Input, Output bool
}

// react handles what the poller found.
func (e *Engine) react(got []Ready) {
	for _, ev := range got {
		if ev.Data < 0 {
			e.called.Store(false)
			e.poll.woken()
			continue
		}
		e.cfg.Handler.Ready(ev)
	}
}

const (
	// spinMax is how long a waiter looks again and again before it sleeps, where
	// every process has a processor to itself: as long as to sleep and wake takes.
	spinMax = 15 * time.Microsecond
	// spinBytes is how much has to come for it to be worth to stay: a large message does.
	spinBytes = 64 << 10
)

// spinFor looks for input again and again, for a short while.
func (e *Engine) spinFor(w *Waiter) bool {
	h := e.cfg.Handler
	if !h.Spins() || !e.spinPays() {
		return w.done
	}
	defer func() { e.spun(w.done) }()
	began, moved := time.Now(), 0
	for !w.done {
		for range 8 {
			if moved += h.Read(); w.done {
				break
			}
		}
		if moved > spinBytes {
			began, moved = time.Now(), 0
		}
		if !h.Spins() || time.Since(began) > spinMax {
			break
		}
		e.Unlock()
		e.Lock()
	}
	return w.done
}

// spinPays reports whether to spin this time. It does so less and less often while spinning
// finds nothing, as on a busy machine or with slow peers.
func (e *Engine) spinPays() bool {
	e.spins++
	return e.spins>>min(e.vain, 6)<<min(e.vain, 6) == e.spins
}

// spun takes note of whether spinning was of use.
func (e *Engine) spun(used bool) {
	if used {
		e.vain /= 2
	} else {
		e.vain = min(e.vain+1, 6)
	}
}

// inBackground drives while nobody waits. It looks once in a while whether
// anybody did, and rests while somebody does.
func (e *Engine) inBackground() {
	defer close(e.ended)
	ctx := context.Background()
	timer := time.NewTimer(e.cfg.Pause)
	defer timer.Stop()
	e.Lock()
	defer e.Unlock()
	for !e.stopped {
		before := e.drives
		e.Unlock()
		hurried := e.pause(timer)
		e.Lock()
		switch {
		case e.stopped:
		case e.driver != nil: // rest until it leaves
			e.resting = true
			e.Unlock()
			<-e.rested
			e.Lock()
		case e.drives == before || hurried:
			e.driver = &e.background
			e.drive(ctx, &e.background, false)
			e.poll.arm(false)
			if e.driver == &e.background {
				e.driver = nil
			} else if e.asleep != nil {
				e.wake() // the wake that was seen here may have been for the new driver
			}
		}
	}
}

// pause waits for Config.Pause and reports whether Hurry ended it earlier.
func (e *Engine) pause(timer *time.Timer) (hurried bool) {
	timer.Reset(e.cfg.Pause)
	select {
	case <-timer.C:
		return false
	case <-e.hurry:
		return true
	}
}
