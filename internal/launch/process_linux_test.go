package launch

import (
	"fmt"
	"os"
	"testing"
)

// TestWaitingTakesNoThreads: a thread for each process would be too much for a large
// job, and for a user who may have few.
func TestWaitingTakesNoThreads(t *testing.T) {
	const n = 60
	launcher, out := shell(n, "echo up; exec sleep 100").apart(t)
	out.await(t, "up\n", n)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", launcher.Process.Pid))
	if err != nil || len(threads) > n/2 {
		t.Errorf("%d threads wait for %d processes (%v)", len(threads), n, err)
	}
}
