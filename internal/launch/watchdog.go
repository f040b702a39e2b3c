package launch

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/posix"
)

// watchdog keeps the time-out of a job, whatever else hangs: the coordinator, who reads
// the output, the goroutine that oversees the job, a process between fork and exec. It
// only sends signals, and lets go: what is to be said of it is said by others, if they
// still can.
//
//  1. At the time-out a few processes are asked for their goroutines (SIGQUIT), and the
//     others are killed. Nothing more is started.
//  2. Those few are killed after dumpTime.
//  3. After another lastTime whoever waits for the job gets a report without it.
type watchdog struct {
	after  time.Duration
	abrupt bool          // nobody is asked
	struck chan struct{} // closed at the time-out
	gone   chan struct{} // closed when nothing is waited for any more
	over   chan struct{} // closed when the job has come to its end
	timer  *time.Timer   // nil: it never strikes

	mu      sync.Mutex // held for no longer than a copy takes
	watched []watched
	asked   []int // ranks
}

// watched is who has processes that the time-out ends. Its methods do not block.
type watched interface {
	alive() []int        // ranks that run, as far as is known
	strike(spared []int) // kills all but these, which get SIGQUIT
	abandon()            // ends what is left, if that helps
}

const (
	// dumpTime is how long processes have to say what they were doing when the
	// time-out strikes.
	dumpTime = 2 * time.Second
	// lastTime is how long the launcher has then to come to its end.
	lastTime = 3 * time.Second
	// askedMax is how many processes are asked.
	askedMax = 4
)

var errTimeout = errors.New("the time-out struck")

// newWatchdog begins to watch. If the plan has no time-out, it never strikes.
func newWatchdog(p *Plan) *watchdog {
	w := &watchdog{after: p.Timeout, abrupt: p.Abrupt, struck: make(chan struct{}), gone: make(chan struct{}), over: make(chan struct{})}
	if w.after > 0 {
		w.timer = time.AfterFunc(w.after, w.strike)
	}
	return w
}

// end lets the watchdog go. It reports whether the time-out had come.
func (w *watchdog) end() (struck bool) {
	close(w.over)
	return w.timer != nil && !w.timer.Stop()
}

// watch has what somebody starts watched, too. After the time-out nothing more is.
func (w *watchdog) watch(more watched) {
	w.mu.Lock()
	w.watched = append(w.watched, more)
	w.mu.Unlock()
	if w.hasStruck() {
		more.strike(nil)
	}
}

// hasStruck reports whether the time-out has come.
func (w *watchdog) hasStruck() bool { return closed(w.struck) }

// closed reports whether a channel that nothing is sent on is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// offer sends something to whoever can take it at once; otherwise it is dropped.
func offer[T any](to chan<- T, what T) {
	select {
	case to <- what:
	default:
	}
}

// spared are the ranks that are asked for goroutines.
func (w *watchdog) spared() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func (w *watchdog) all() []watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watched[:len(w.watched):len(w.watched)]
}

// choose chooses who is asked.
func (w *watchdog) choose() (asked []int) {
	if w.abrupt {
		return nil
	}
	for _, each := range w.all() {
		asked = append(asked, each.alive()...)
	}
	slices.Sort(asked)
	asked = asked[:min(len(asked), askedMax)]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = asked
	return asked
}

func (w *watchdog) strike() {
	asked := w.choose()
	close(w.struck)
	for _, each := range w.all() {
		each.strike(asked)
	}
	if w.pause(dumpTime) {
		return
	}
	for _, each := range w.all() {
		each.strike(nil)
	}
	if w.pause(lastTime) {
		return
	}
	for _, each := range w.all() {
		each.abandon()
	}
	close(w.gone)
}

// pause waits, and reports whether the job has come to its end meanwhile.
func (w *watchdog) pause(d time.Duration) bool {
	select {
	case <-w.over:
		return true
	case <-time.After(d):
		return false
	}
}

// report is that of a job that has not come to its end.
func (w *watchdog) report(what string) *Report {
	r := &Report{Timeout: true}
	r.conclude()
	r.Cause = fmt.Sprintf("time-out after %v, %s", w.after, what)
	r.Seconds = w.after.Seconds()
	return r
}

// abandon does nothing: whoever does not die of SIGKILL dies of nothing else.
func (c *crew) abandon() {}

func (t *threads) alive() []int { return nil }

// strike spares those that carry the signals to other hosts.
func (t *threads) strike([]int) {}

// abandon kills what the threads have started.
func (t *threads) abandon() {
	for _, pid := range t.children() {
		_ = posix.Kill(pid, syscall.SIGKILL)
	}
}
