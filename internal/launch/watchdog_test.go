//go:build unix

package launch

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// TestTimeoutAsksFew: a large job would not be done with asking for long, and nobody reads
// the goroutines of hundreds.
func TestTimeoutAsksFew(t *testing.T) {
	t.Parallel() // it waits
	c := shell(7, `trap "echo asked; exit 3" QUIT; echo up; while :; do sleep 0.1; done`)
	c.Timeout = time.Hour
	started := make(chan struct{}, c.N)
	c.Events = func(e control.Event) {
		if e.Type == control.EventStarted {
			started <- struct{}{}
		}
	}
	plan, err := New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	dog, done := newWatchdog(plan.Timeout, plan.Abrupt), make(chan *Report, 1)
	go func() {
		r, err := plan.runAll(context.Background(), dog)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	c.out.await(t, "up\n", c.N)
	for range c.N { // they may be up before the launcher has done with starting them
		<-started
	}
	dog.timer.Reset(0)
	r := <-done
	dog.end()
	if !r.Timeout || r.Exit != 1 || r.Cause != "time-out after 1h0m0s, when tasks 0-6 still ran" {
		t.Errorf("report %+v", r)
	}
	for _, task := range r.Tasks[askedMax:] {
		if task.Signal != "SIGKILL" || task.Why != whyTimeout || strings.Contains(c.out.String(), fmt.Sprintf("[%d] asked", task.Rank)) {
			t.Errorf("task %d: %+v", task.Rank, task)
		}
	}
	want := "time-out after 1h0m0s: tasks 0-6 still running; asking tasks 0-3 for goroutines, killing the others\n"
	if c.notices.String() != want {
		t.Errorf("said %q, want %q", c.notices.String(), want)
	}
}

// TestTimeoutDuringARestart: it is no mistake of the program that it is not started again.
func TestTimeoutDuringARestart(t *testing.T) {
	c := shell(2, `exit 3`)
	c.Restart, c.Timeout, c.StdinRank = 1, time.Hour, -1
	var dog *watchdog
	c.Notice = func(line string) {
		if strings.HasPrefix(line, "restarted") {
			dog.timer.Reset(0)
			<-dog.struck
		}
	}
	plan, err := New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	dog = newWatchdog(plan.Timeout, plan.Abrupt)
	defer dog.end()
	r, err := plan.runAll(context.Background(), dog)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^time-out after 1h0m0s, before all processes were started again; before that task \d ended with exit code 3, `)
	if !r.Timeout || r.Exit != 1 || !want.MatchString(r.Cause) {
		t.Errorf("report %+v", r)
	}
}

// blocked is a writer that takes nothing until the end of the test.
type blocked struct{ until chan struct{} }

func (b blocked) Write(p []byte) (int, error) {
	<-b.until
	return len(p), nil
}

// TestTimeoutIsKeptWhateverHangs: the goroutine that oversees the job does, in the first line that
// it has to say, and so does all output.
func TestTimeoutIsKeptWhateverHangs(t *testing.T) {
	t.Parallel() // it waits
	until := make(chan struct{})
	for name, hang := range map[string]func(*test){
		"who oversees the job": func(c *test) { c.Notice = func(string) { <-until } },
		"the output":           func(c *test) { c.Output.Stdout, c.Output.Stderr = blocked{until}, blocked{until} },
	} {
		c := shell(6, `echo $$; while :; do echo more; sleep 0.1; done`)
		c.Timeout = time.Second
		hang(c)
		began := time.Now()
		r := c.begin(t)()
		if took := time.Since(began); took > c.Timeout+dumpTime+lastTime+time.Minute {
			t.Errorf("%s hangs: the time-out of 1s took %v", name, took)
		}
		if !r.Timeout || r.Exit != 1 || !strings.HasPrefix(r.Cause, "time-out after 1s, ") || r.Killed == nil {
			t.Errorf("%s hangs: report %+v", name, r)
		}
		for _, pid := range regexp.MustCompile(`\] (\d+)\n`).FindAllStringSubmatch(c.out.String(), -1) {
			gone(t, numbers(t, pid[1:])...)
		}
	}
	close(until)
}

// TestTimeoutEndsWhoNeverRunsItsProgram: a process that is stopped between fork and exec is known to
// nobody, and whoever started it waits for it.
func TestTimeoutEndsWhoNeverRunsItsProgram(t *testing.T) {
	c := newCrew(make([]order, 1))
	started, done := make(chan struct{}), make(chan error, 1)
	go c.threads.each(1, func(int) {
		cmd := exec.Command("sleep", "100")
		if err := cmd.Start(); err != nil {
			t.Error(err)
		}
		close(started)
		done <- cmd.Wait()
	})
	<-started
	c.strike(nil)
	if err := <-done; err == nil || err.Error() != "signal: killed" {
		t.Errorf("it has ended with %v", err)
	}
	if err := c.stop(nil); err != errTimeout {
		t.Errorf("more are started: %v", err)
	}
	c.threads.close()
}
