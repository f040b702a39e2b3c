//go:build unix

package launch

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// endedTask is a task that ended so many milliseconds after the start; exit −1: by
// SIGKILL.
func endedTask(rank, exit int, ms int, why, failure string) TaskReport {
	after := time.Duration(ms) * time.Millisecond
	t := TaskReport{Rank: rank, Why: why, Failure: failure, Seconds: after.Seconds(), ended: time.Unix(0, 0).Add(after)}
	if exit < 0 {
		t.Signal = "SIGKILL"
	} else {
		t.Exit = &exit
	}
	return t
}

// ranTask is the process of a task that ended with 0 before the job did.
func ranTask(rank int) TaskReport {
	t := endedTask(rank, 0, 5, "", "")
	t.Joined, t.tasks = true, []int{rank}
	return t
}

// killedTask is that of a task that SIGKILL ended before the job did.
func killedTask(rank int, why string) TaskReport {
	t := endedTask(rank, -1, 5, why, "")
	t.Joined, t.tasks = true, []int{rank}
	return t
}

// crashedTask is that of a Go program with a mistake.
func crashedTask(rank, ms int, line string) TaskReport {
	t := endedTask(rank, 2, ms, "", "")
	t.said = &lastCry{}
	t.said.take([]byte("[info] panic: not this\n" + line + " [recovered, repanicked]\n\ngoroutine 1 [running]:\n"))
	return t
}

// reapedLate is a task of whose death the coordinator knew before.
func reapedLate(t TaskReport, ms int) TaskReport {
	t.learn(control.Status{Pid: 1, State: control.Dead, Certain: true, DiedAt: time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond)}, "")
	return t
}

// of2 is a process of a job that has another number of tasks.
func of2(t TaskReport) TaskReport {
	t.apart = true
	return t
}

func TestTheCauseIsWhatWentWrongFirst(t *testing.T) {
	for _, c := range []struct {
		name   string
		report Report
		exit   int
		want   string
	}{
		{"nothing", Report{Tasks: []TaskReport{endedTask(0, 0, 5, "", "")}}, 0, ""},
		{
			"the earliest",
			Report{Tasks: []TaskReport{endedTask(0, 1, 900, "", "peer died"), endedTask(1, 2, 520, "", ""), endedTask(2, -1, 700, "", "")}},
			1,
			"task 1 ended with exit code 2, 0.52 s after the start; then 1 other died and 1 failed",
		},
		{
			"its own words",
			Report{Tasks: []TaskReport{endedTask(0, 1, 900, "", "cannot\nread")}},
			1,
			"task 0 ended with exit code 1, 0.90 s after the start: cannot read",
		},
		{
			"failed with exit code 0",
			Report{Tasks: []TaskReport{endedTask(0, 0, 900, "", "no")}},
			1,
			"task 0 failed, 0.90 s after the start: no",
		},
		{
			"survived",
			Report{Tasks: []TaskReport{endedTask(0, -1, 150, "--kill 0@150ms", ""), endedTask(1, 0, 200, "", "")}},
			0,
			"task 0 was killed by SIGKILL (--kill 0@150ms), 0.15 s after the start; the others ended well",
		},
		{
			"time-out",
			Report{Timeout: true, timeout: time.Second, late: []int{0, 2}, Tasks: []TaskReport{endedTask(0, 2, 1100, whyTimeout, ""), endedTask(1, 0, 5, "", ""), endedTask(2, -1, 3000, whyTimeout, "")}},
			1,
			"time-out after 1s, when tasks 0, 2 still ran",
		},
		{
			"failure, then time-out",
			Report{Timeout: true, timeout: time.Second, late: []int{0}, Tasks: []TaskReport{endedTask(0, 2, 1100, whyTimeout, ""), endedTask(1, 3, 5, "", "")}},
			1,
			"time-out after 1s, when task 0 still ran; before that task 1 ended with exit code 3, 0.01 s after the start",
		},
		{
			"time-out, of which the end of the tasks follows",
			Report{Timeout: true, timeout: time.Second, late: []int{0, 1}, abandoned: "all have ended", Tasks: []TaskReport{killedTask(0, whyTimeout), killedTask(1, whyTimeout)}},
			1,
			"time-out after 1s, when tasks 0, 1 still ran",
		},
		{
			"state lost, then time-out",
			Report{Timeout: true, timeout: time.Second, late: []int{0}, losses: map[int]string{1: "no copy"}, Tasks: []TaskReport{killedTask(0, whyTimeout)}},
			1,
			"time-out after 1s, when task 0 still ran; before that task 1 is lost: no copy",
		},
		{"interrupted", Report{Signal: "SIGINT", received: syscall.SIGINT, Tasks: []TaskReport{endedTask(0, 0, 5, "", "")}}, 1, "interrupted by SIGINT"},
		{
			"crashed", // a task that ends whoever runs it
			Report{Tasks: []TaskReport{crashedTask(0, 20, "panic: b"), crashedTask(1, 10, "panic: a"), crashedTask(2, 30, "panic: a"), endedTask(3, 1, 40, "", "")}},
			1,
			"task 1 crashed, 0.01 s after the start: panic: a; then 3 others failed, 1 of them crashed the same way",
		},
		{
			"state lost",
			Report{losses: map[int]string{4: "no copy of it", 2: "no copy"}, Tasks: []TaskReport{endedTask(0, -1, 5, "", ""), endedTask(1, 1, 9, "", "task 2 is lost")}},
			1,
			"task 0 was killed by SIGKILL, 0.01 s after the start; then 1 other failed; tasks 2, 4 are lost: no copy",
		},
		{
			"state lost, and others have not returned",
			Report{losses: map[int]string{0: "no copy"}, abandoned: "all have ended", Tasks: []TaskReport{killedTask(0, ""), ranTask(1)}},
			1,
			"task 0 was killed by SIGKILL, 0.01 s after the start; task 0 is lost: no copy; tasks 0, 1 never returned",
		},
		{
			"abandoned",
			Report{abandoned: "all have ended", Tasks: []TaskReport{ranTask(0), ranTask(1)}},
			1,
			"tasks 0, 1 never returned: all have ended",
		},
		{
			"failed after a death",
			Report{Tasks: []TaskReport{endedTask(0, -1, 5, "", ""), endedTask(1, 1, 30, "", "task 2: cannot read"), endedTask(2, 1, 20, "", "task 5: boom")}},
			1,
			"task 0 was killed by SIGKILL, 0.01 s after the start; then 2 others failed: task 5: boom",
		},
		{
			"reaped late",
			Report{Tasks: []TaskReport{reapedLate(endedTask(0, 2, 40, "", ""), 10), endedTask(1, 1, 30, "", "task 0 is dead")}},
			1,
			"task 0 ended with exit code 2, 0.04 s after the start; then 1 other failed",
		},
		{
			"more processes than tasks",
			Report{Timeout: true, timeout: time.Second, late: []int{0, 2}, Tasks: []TaskReport{of2(endedTask(0, 2, 9, whyTimeout, "")), of2(endedTask(1, 3, 5, "", "")), of2(endedTask(2, 2, 9, whyTimeout, ""))}},
			1,
			"time-out after 1s, when processes 0, 2 still ran; before that process 1 ended with exit code 3, 0.01 s after the start",
		},
		{
			"lost output",
			Report{broke: errors.New("broken pipe"), Tasks: []TaskReport{endedTask(0, -1, 5, "", ""), endedTask(1, 0, 5, "", "")}},
			1,
			"what the tasks wrote was lost: broken pipe; task 0 was killed by SIGKILL, 0.01 s after the start",
		},
	} {
		r := c.report
		r.conclude()
		if r.Exit != c.exit || r.Cause != c.want {
			t.Errorf("%s: exit %d, cause %q\nwant %d, %q", c.name, r.Exit, r.Cause, c.exit, c.want)
		}
	}
}

// Of a process in a wrapper only the wrapper's exit code is known.
func TestAWrappersCodeTellsHowItsProcessEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		exit   int
		status control.Status
		kill   string
		want   string
	}{
		{"shell", 137, control.Status{Pid: 8, State: control.Dead, Certain: true, How: "exited"}, "", "was killed by SIGKILL, 0.01 s after the start"},
		{"shell", 139, control.Status{Pid: 8, State: control.Dead, Certain: true, How: "exited"}, "", "was killed by SIGSEGV, 0.01 s after the start"},
		{"go run", 1, control.Status{Pid: 8, State: control.Dead, Certain: true, How: "exited"}, "0@reduce#1", "was killed by SIGKILL (--kill 0@reduce#1), 0.01 s after the start"},
		{"go run, failed", 1, control.Status{Pid: 8, State: control.Returned, Failure: "no"}, "0@reduce#1", "ended with exit code 1, 0.01 s after the start: no"},
		{"go run, failed without a word", 1, control.Status{Pid: 8, State: control.Dead, Certain: true, How: "exited"}, "", "ended with exit code 1, 0.01 s after the start"},
		{"fenced", 1, control.Status{Pid: 8, State: control.Dead, Certain: true, How: "fenced: silent for 3.0s"}, "", "was killed by SIGKILL (fenced: silent for 3.0s), 0.01 s after the start"},
		{"no wrapper", 137, control.Status{Pid: 7, State: control.Dead, Certain: true, How: "exited with 137"}, "", "ended with exit code 137, 0.01 s after the start"},
		{"not joined", 137, control.Status{State: control.Dead, Certain: true, How: "never joined: exited with 137"}, "", "ended with exit code 137, 0.01 s after the start"},
	} {
		task := endedTask(0, c.exit, 5, "", "")
		task.PID = 7
		task.learn(c.status, c.kill)
		if got := task.how(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAFailureIsSaidOnce(t *testing.T) {
	crashed, first, second := endedTask(0, 2, 100, "", ""), endedTask(2, 1, 150, "", "cannot\nread"), endedTask(1, 1, 200, "", "lost")
	for want, tasks := range map[string][]TaskReport{
		"cannot read": {crashed, second, first},
		"":            {second, first}, // the cause says it
	} {
		if got := (&Report{Tasks: tasks}).Failure(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (&Report{Tasks: []TaskReport{crashed}}).Failure(); got != "" {
		t.Errorf("%q of who was killed", got)
	}
}

// A process that was started while the job ran, and failed before it had any part in it, fails
// nothing; of a program that knows nothing of jobs it was to do all again.
func TestANewLifeThatWasOfNoUse(t *testing.T) {
	for _, owners := range [][]int{{0, 0}, nil} {
		first, dead, again := endedTask(0, 0, 900, "", ""), endedTask(1, -1, 150, "", ""), endedTask(1, 1, 160, "", "")
		first.in, dead.out, again.Again = true, true, 1
		r := Report{owners: owners, Tasks: []TaskReport{first, dead, again}}
		r.conclude()
		if want := owners == nil; (r.Exit != 0) != want {
			t.Errorf("owners %v: exit %d, %s", owners, r.Exit, r.Cause)
		}
	}
}
