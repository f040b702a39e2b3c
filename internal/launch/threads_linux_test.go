package launch

import (
	"os/exec"
	"slices"
	"testing"
)

// Threads that a job has let go may start processes of another one, which its watchdog must not kill.
func TestThreadsForgetTheirChildren(t *testing.T) {
	threads, cmd := newThreads(1), exec.Command("sleep", "60")
	threads.each(1, func(int) {
		if err := cmd.Start(); err != nil {
			t.Error(err)
		}
	})
	if cmd.Process == nil {
		t.FailNow()
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if got := threads.children(); !slices.Equal(got, []int{cmd.Process.Pid}) {
		t.Errorf("the children are %v, want %d", got, cmd.Process.Pid)
	}
	threads.close()
	if got := threads.children(); len(got) > 0 {
		t.Errorf("after the end the children are %v, want none", got)
	}
}
