// Package machine measures the machine that tests run on.
package machine

import "time"

// Late is how long a process was kept waiting beyond the time it had asked for.
type Late struct {
	Most  time.Duration // at one time
	Total time.Duration
}

// Watch begins to measure how long this process is kept waiting, as every other process of this machine
// is. The function that it returns ends the measurement.
func Watch() (end func() Late) {
	const nap = 10 * time.Millisecond
	stop, result := make(chan struct{}), make(chan Late)
	go func() {
		var l Late
		for {
			began := time.Now()
			select {
			case <-stop:
				result <- l
				return
			case <-time.After(nap):
				late := time.Since(began) - nap
				l.Most, l.Total = max(l.Most, late), l.Total+late
			}
		}
	}()
	return func() Late {
		close(stop)
		return <-result
	}
}
