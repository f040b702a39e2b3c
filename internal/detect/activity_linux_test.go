package detect

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// until inspects a process until is holds for what the kernel reports.
func until(t *testing.T, pid int, what string, is func(now, before Activity) bool) {
	t.Helper()
	before := Inspect(pid)
	for range 500 {
		time.Sleep(10 * time.Millisecond)
		now := Inspect(pid)
		if is(now, before) {
			return
		}
		before = now
	}
	t.Fatalf("the kernel never says that it %s: %+v", what, Inspect(pid))
}

func begin(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestTheKernelTellsWorkFromStandstill(t *testing.T) {
	busy := begin(t, "while :; do :; done")
	until(t, busy.Process.Pid, "works", func(now, before Activity) bool { return now.Working(before) && !now.Stopped })
	if err := busy.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, busy.Process.Pid, "is stopped", func(now, before Activity) bool { return now.Stopped && !now.Working(before) })
	before := Inspect(busy.Process.Pid)
	if err := busy.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := busy.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, busy.Process.Pid, "is stopped again", func(now, _ Activity) bool { return now.Stopped && now.Working(before) })
	if err := busy.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, busy.Process.Pid, "works again", func(now, before Activity) bool { return now.Working(before) })

	idle := begin(t, "read line") // its standard input is empty, so it must not read it
	_ = idle.Process.Kill()
	_ = idle.Wait()
	if a := Inspect(idle.Process.Pid); a.Working(a) {
		t.Errorf("a dead process works: %+v", a)
	}
	sleeper := begin(t, "exec sleep 1000")
	until(t, sleeper.Process.Pid, "rests", func(now, before Activity) bool {
		return now.Known && !now.Stopped && !now.Working(before)
	})
	if a := Inspect(0); a.Known {
		t.Errorf("process 0: %+v", a)
	}
}

func TestStatWithAnyName(t *testing.T) {
	for stat, want := range map[string]byte{
		"1 (a b) S 1 1 1 0 -1 0 10 20 3 40 5 6 0 0 20 0":   'S',
		"1 (a) R (b) T 1 1 1 0 -1 0 10 20 3 40 5 6 0 0 20": 'T',
		"1 (a":    0,
		"1 (a) S": 0,
		"":        0,
	} {
		state, used := parseStat([]byte(stat))
		if state != want || want != 0 && used != 3+5+6 {
			t.Errorf("%q: state %q, used %d", stat, state, used)
		}
	}
}
