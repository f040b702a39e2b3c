package node

import (
	"context"
	"errors"
	"slices"
	"time"
)

// waiter is a caller that waits for something.
type waiter struct {
	done  bool
	ready chan struct{} // has room for one; made when needed
}

// newWaiter returns a waiter, used before if there is one.
func (p *Process) newWaiter() *waiter {
	n := len(p.free)
	if n == 0 {
		return &waiter{}
	}
	w := p.free[n-1]
	p.free = p.free[:n-1]
	return w
}

// freeWaiter gives back a waiter that nobody refers to any more.
func (p *Process) freeWaiter(w *waiter) {
	w.reset()
	p.free = append(p.free, w)
}

// reset makes it a new waiter.
func (w *waiter) reset() {
	w.done = false
	if w.ready != nil {
		select {
		case <-w.ready:
		default:
		}
	}
}

// complete ends a wait. Call it with the lock held.
func (p *Process) complete(w *waiter) {
	if w == nil || w.done {
		return
	}
	w.done = true
	if w == p.driver {
		if p.asleep == w {
			p.poll.wake()
		}
		return
	}
	p.signal(w)
}

// signal makes a waiter that does not drive look again, once the lock is given
// back.
func (p *Process) signal(w *waiter) {
	if w.ready != nil {
		p.signals = append(p.signals, w)
	}
}

// signal makes it look again.
func (w *waiter) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// wait waits until w is complete or ctx is done. The lock is held before and
// after.
func (p *Process) wait(ctx context.Context, w *waiter) error {
	for !w.done {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.closed {
			return errOver
		}
		if p.poll == nil || p.driver != nil && p.driver != &p.background {
			p.stand(ctx, w)
			continue
		}
		if p.driver == &p.background && p.asleep == &p.background {
			p.poll.wake() // it sees that somebody else drives, and rests
		}
		p.wakeOn(ctx)
		p.drives++
		p.driver = w
		p.drive(ctx, w, p.cfg.Spin)
		p.driver = nil
		p.handOver()
		if p.leaving != nil {
			close(p.leaving)
			p.leaving = nil
		}
	}
	return nil
}

// errOver: the process is closed.
var errOver = errors.New("the job is over")

// stand waits beside the one who drives.
func (p *Process) stand(ctx context.Context, w *waiter) {
	if w.ready == nil {
		w.ready = make(chan struct{}, 1)
	}
	p.standing = append(p.standing, w)
	p.unlock()
	if done := ctx.Done(); done == nil {
		<-w.ready
	} else {
		select {
		case <-w.ready:
		case <-done:
		}
	}
	p.lock()
	if i := slices.Index(p.standing, w); i >= 0 {
		last := len(p.standing) - 1
		p.standing[i], p.standing[last] = p.standing[last], nil
		p.standing = p.standing[:last]
	}
	if p.poll != nil && p.driver == nil && (w.done || ctx.Err() != nil) {
		p.handOver() // it may have been asked to drive, and does not
	}
}

// handOver asks another waiter to drive, or tells the background that it may
// have to.
func (p *Process) handOver() {
	for _, w := range p.standing {
		if !w.done {
			p.signal(w)
			return
		}
	}
	if p.resting {
		p.resting = false
		p.rested <- struct{}{}
	}
	p.hurryViews()
}

// wakeOn sees to it that the driver wakes when ctx ends.
func (p *Process) wakeOn(ctx context.Context) {
	done := ctx.Done()
	if done == nil || done == p.watched {
		return
	}
	if p.unwatch != nil {
		p.unwatch()
	}
	p.watched = done
	p.unwatch = context.AfterFunc(ctx, p.wakeDriver)
}

// wakeDriver wakes whoever drives, unless it is too late for that.
func (p *Process) wakeDriver() {
	p.lock()
	defer p.unlock()
	if !p.closed {
		p.poll.wake()
	}
}

// drive makes progress until w is complete, ctx is done or somebody else drives.
func (p *Process) drive(ctx context.Context, w *waiter, spin bool) {
	var room events
	for waits := false; ; waits = true {
		if spin && p.spinFor(w) {
			p.fire()
			return
		}
		d := p.untilTimer()
		if !waits && w != &p.background && d > time.Duration(patrolEvery) {
			p.patrolSoon()
			d = p.untilTimer()
		}
		p.asleep = w
		p.unlock()
		var got []ready
		if w == &p.background {
			got = p.poll.rest(d)
		} else {
			got = p.poll.wait(&room, d)
		}
		p.lock()
		if p.asleep == w {
			p.asleep = nil
		}
		p.react(got)
		p.fire()
		if w.done || p.driver != w || p.closed || ctx.Err() != nil {
			return
		}
	}
}

// spinMax is how long a waiter looks again and again before it sleeps, where
// every process has a processor to itself: as long as to sleep and wake takes.
const spinMax = 15 * time.Microsecond

// spinFor looks for input again and again, for a short while.
func (p *Process) spinFor(w *waiter) bool {
	if len(p.up) == 0 || len(p.up) > 4 || !p.spinPays() {
		return w.done
	}
	defer func() { p.spun(w.done) }()
	began, moved := time.Now(), p.moved
	for !w.done {
		for range 8 {
			for _, q := range p.up {
				if q.armed {
					q.flush()
				}
				q.read()
			}
			if w.done {
				break
			}
		}
		if p.moved-moved > eagerMax { // a large message: it is worth to stay
			began, moved = time.Now(), p.moved
		}
		if len(p.up) == 0 || time.Since(began) > spinMax {
			break
		}
		p.unlock()
		p.lock()
	}
	return w.done
}

// spinPays tells whether to spin this time: less and less often while it is in
// vain, as it is on a busy machine or beside slow peers.
func (p *Process) spinPays() bool {
	p.spins++
	return p.spins>>min(p.vain, 6)<<min(p.vain, 6) == p.spins
}

// spun takes note of whether spinning was of use.
func (p *Process) spun(used bool) {
	if used {
		p.vain /= 2
	} else {
		p.vain = min(p.vain+1, 6)
	}
}

// react handles what the poller found.
func (p *Process) react(got []ready) {
	for _, ev := range got {
		if ev.data < 0 {
			p.poll.woken()
			continue
		}
		rank, pid := int(ev.data>>1), ev.data&1 == 1
		q := p.peers[rank]
		switch {
		case pid && q.pidfd == ev.fd:
			q.exited()
		case q.conn == nil || q.conn.Fd() != ev.fd: // of an earlier connection
		default:
			if ev.output {
				q.flush()
			}
			if q.conn != nil && ev.input {
				q.read()
			}
		}
	}
}

// pause lets a moment pass, and tells whether it was cut short.
func (p *Process) pause(timer *time.Timer) (hurried bool) {
	timer.Reset(p.cfg.Pause)
	select {
	case <-timer.C:
		return false
	case <-p.hurry:
		return true
	}
}

// inBackground drives while nobody waits. It looks once in a while whether
// anybody did, and rests while somebody does.
func (p *Process) inBackground() {
	defer close(p.stopped)
	ctx := context.Background()
	timer := time.NewTimer(p.cfg.Pause)
	defer timer.Stop()
	p.lock()
	defer p.unlock()
	for !p.closed {
		before := p.drives
		p.unlock()
		hurried := p.pause(timer)
		p.lock()
		switch {
		case p.closed:
		case p.driver != nil: // rest until it leaves
			p.resting = true
			p.unlock()
			<-p.rested
			p.lock()
		case p.drives == before || hurried:
			p.driver = &p.background
			p.drive(ctx, &p.background, false)
			if p.driver == &p.background {
				p.driver = nil
			} else if p.asleep != nil {
				p.poll.wake() // the wake that was seen here may have been for the new driver
			}
		}
	}
}
