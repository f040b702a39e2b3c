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

// watchdog enforces the timeout of a job, whatever else hangs: the coordinator, the reader of
// the output, the goroutine that oversees the job, a process between fork and exec. It
// only sends signals, and ends the wait: others report what happened, if they
// still can.
//
//  1. At the timeout the watchdog asks a few processes for their goroutines (SIGQUIT), and kills the
//     others. Nothing more is started.
//  2. It kills those few after dumpTime.
//  3. After another lastTime, the caller that waits for the job gets a report without it.
type watchdog struct {
	after  time.Duration
	abrupt bool          // no process is asked
	struck chan struct{} // closed at the timeout
	gone   chan struct{} // closed when the watchdog waits for nothing more
	over   chan struct{} // closed when the job has ended
	timer  *time.Timer   // nil: the timeout never expires

	mu      sync.Mutex // held for no longer than a copy takes
	watched []watched
	asked   []int // ranks asked for goroutines
}

// watched has processes that the timeout ends. Its methods do not block.
type watched interface {
	alive() []int        // running ranks, as far as is known
	strike(spared []int) // kills all but these, which get SIGQUIT
	abandon()            // ends what is left, if that helps
}

const (
	// dumpTime is how long processes have to print their goroutines when the
	// timeout expires.
	dumpTime = 2 * time.Second
	// lastTime is how long the launcher then has to end.
	lastTime = 3 * time.Second
	// askedMax is how many processes are asked.
	askedMax = 4
)

var errTimeout = errors.New("the time-out struck")

// newWatchdog begins to watch. Without a timeout it never strikes.
func newWatchdog(after time.Duration, abrupt bool) *watchdog {
	w := &watchdog{after: after, abrupt: abrupt, struck: make(chan struct{}), gone: make(chan struct{}), over: make(chan struct{})}
	if w.after > 0 {
		w.timer = time.AfterFunc(w.after, w.strike)
	}
	return w
}

// end stops the watchdog. It reports whether the timeout had expired.
func (w *watchdog) end() (struck bool) {
	close(w.over)
	return w.timer != nil && !w.timer.Stop()
}

// watch adds processes to be watched. After the timeout it kills them at once.
func (w *watchdog) watch(more watched) {
	w.mu.Lock()
	w.watched = append(w.watched, more)
	w.mu.Unlock()
	if w.hasStruck() {
		more.strike(nil)
	}
}

// hasStruck reports whether the timeout has expired.
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

// offer sends a value if a receiver can take it at once; otherwise it drops the value.
func offer[T any](to chan<- T, what T) {
	select {
	case to <- what:
	default:
	}
}

// spared returns the ranks that are asked for goroutines.
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

// choose chooses which ranks are asked.
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

// pause waits, and reports whether the job has ended in the meantime.
func (w *watchdog) pause(d time.Duration) bool {
	select {
	case <-w.over:
		return true
	case <-time.After(d):
		return false
	}
}

// report returns the report of a job that has not ended.
func (w *watchdog) report(what string) *Report {
	r := &Report{Timeout: true}
	r.conclude()
	r.Cause = fmt.Sprintf("time-out after %v, %s", w.after, what)
	r.Seconds = w.after.Seconds()
	return r
}

// abandon does nothing: a process that survives SIGKILL survives anything.
func (c *crew) abandon() {}

func (t *threads) alive() []int { return nil }

// strike spares the processes that carry the signals to other hosts.
func (t *threads) strike([]int) {}

// abandon kills what the threads have started.
func (t *threads) abandon() {
	for _, pid := range t.children() {
		_ = posix.Kill(pid, syscall.SIGKILL)
	}
}
