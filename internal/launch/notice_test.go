//go:build unix

package launch

import (
	"syscall"
	"testing"
)

// Nobody reads what the launcher has to say: a signal is passed on all the same.
func TestNoticesHoldNothingUp(t *testing.T) {
	t.Parallel() // it waits
	read := make(chan struct{})
	defer close(read)
	c := own(2, "patient")
	c.Notice = func(string) { <-read }
	wait := c.begin(t)
	c.out.await(t, `pid (\d+)`, 2)
	c.signals <- syscall.SIGTERM
	if r := wait(); r.Signal != "SIGTERM" {
		t.Errorf("report %+v", r)
	}
}
