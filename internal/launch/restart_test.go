//go:build unix

package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// dying is a script whose rank 1 is killed by SIGKILL when rank 0 is about to sleep, the
// first time; the second time all end well.
const dying = `
if [ -e again.$RANK ]; then echo ends well; exit; fi
echo pid $$
: > again.$RANK
if [ $RANK = 1 ]; then
	while [ ! -e again.0 ]; do sleep 0.01; done
	kill -9 $$
fi
exec sleep 60`

func TestWholeJobIsRestartedWhenOneDies(t *testing.T) {
	shelf(t)
	logs := t.TempDir()
	c := shell(2, dying)
	c.Restart, c.Dir, c.Output.LogDir = 3, t.TempDir(), logs
	r := c.run(t)
	if r.Exit != 0 || r.Cause != "" || len(r.Killed) != 0 || len(r.Restarts) != 1 {
		t.Fatalf("%+v", r)
	}
	first := r.Restarts[0]
	if !slices.Equal(first.Killed, []int{1}) || !strings.HasPrefix(first.Cause, "task 1 was killed by SIGKILL, ") {
		t.Errorf("%+v", first)
	}
	if first.Seconds <= 0 || r.Seconds < first.Seconds {
		t.Errorf("%g s of %g", first.Seconds, r.Seconds)
	}
	if want := "restarted, 1 of 3: " + first.Cause + "\n"; c.notices.String() != want {
		t.Errorf("%q; want %q", c.notices.String(), want)
	}
	if strings.Count(c.out.String(), "ends well") != 2 {
		t.Error(c.out.String())
	}
	if log, err := os.ReadFile(filepath.Join(logs, "0.out")); err != nil || !strings.HasPrefix(string(log), "pid ") || !strings.HasSuffix(string(log), "ends well\n") {
		t.Errorf("the log has %q (%v)", log, err)
	}
	dead(t, numbers(t, c.out.await(t, `pid (\d+)`, 2))...)
}

func TestJobOnHostsIsRestarted(t *testing.T) {
	shelf(t)
	c := shell(2, dying)
	c.Restart, c.Dir = 1, t.TempDir()
	c.onHosts(t, Host{"a", 1}, Host{"b", 1})
	r := c.run(t)
	if r.Exit != 0 || len(r.Restarts) != 1 || !slices.Equal(r.Restarts[0].Killed, []int{1}) || strings.Count(c.out.String(), "ends well") != 2 {
		t.Errorf("%+v, shown %q", r, c.out.String())
	}
	if r.Tasks[0].Peak <= 0 {
		t.Errorf("most memory: %d bytes", r.Tasks[0].Peak)
	}
	dead(t, numbers(t, c.out.await(t, `pid (\d+)`, 2))...)
}

func TestJobFailsAfterItsRestarts(t *testing.T) {
	t.Parallel()
	c := shell(2, "echo begins; [ $RANK = 0 ] && exit 7; exec sleep 60")
	c.Restart = 2
	r := c.run(t)
	if r.Exit != 1 || len(r.Restarts) != 2 || !strings.HasPrefix(r.Cause, "task 0 ended with exit code 7") || strings.Contains(r.Cause, "other") {
		t.Errorf("%+v", r)
	}
	if got := c.notices.String(); strings.Count(got, "restarted, ") != 2 || !strings.Contains(got, "restarted, 2 of 2: task 0 ended") {
		t.Error(got)
	}
	if len(r.Restarts[0].Killed) != 0 || len(r.Killed) != 0 || len(r.Lost) != 0 {
		t.Errorf("%v died, then %v, and %v is lost, though the launcher killed the other", r.Restarts[0].Killed, r.Killed, r.Lost)
	}
}

func init() { programs["late"] = late }

// late returns, and ends when all have. Rank 1 gets a signal then, whose number its argument is.
func late(args []string) int {
	client, w, e := join()
	client.Returned(0, "", true)
	<-e.finished
	if w.Place.Rank == 1 {
		number, _ := strconv.Atoi(args[0])
		syscall.Kill(os.Getpid(), syscall.Signal(number))
		time.Sleep(time.Hour) // the signal may come to another thread, and this one go on for a while
	}
	client.Close()
	return 0
}

func TestJobThatHasFinishedIsNotRestarted(t *testing.T) {
	t.Parallel()
	c := own(3, "late", strconv.Itoa(int(syscall.SIGKILL)))
	c.Restart = 2
	if r := c.run(t); r.Exit != 0 || len(r.Restarts) != 0 || !slices.Equal(r.Killed, []int{1}) || len(r.Lost) != 0 {
		t.Errorf("%+v", r)
	}
}

// It is a run that has failed, and what ran is reported.
func TestJobCannotBeRestarted(t *testing.T) {
	t.Parallel()
	c := shell(1, "exit 7")
	sh, err := exec.LookPath(c.Program)
	c.Restart, c.Program = 2, filepath.Join(t.TempDir(), "program")
	c.Notice = func(string) { os.Remove(c.Program) }
	if err = errors.Join(err, os.Symlink(sh, c.Program)); err != nil {
		t.Fatal(err)
	}
	r := c.run(t)
	if r.Exit != 1 || len(r.Restarts) != 0 || !strings.Contains(r.Cause, "no such file") || !strings.Contains(r.Cause, "; before that task 0 ended with exit code 7") || *r.Tasks[0].Exit != 7 {
		t.Errorf("%+v", r)
	}
}

// Somebody has ended well before: that does not make it a job that was survived.
func TestJobFailsWhoseLastStartIsGivenUp(t *testing.T) {
	t.Parallel()
	c := shell(2, `
if [ $RANK = 0 ]; then echo $$ > $COPPICE_JOB; exit; fi
while [ ! -s $COPPICE_JOB ]; do sleep 0.01; done
read other < $COPPICE_JOB
while kill -0 $other 2> /dev/null; do sleep 0.01; done
kill -9 $$`)
	c.Restart, c.Dir = 1, t.TempDir()
	if r := c.run(t); r.Exit != 1 || len(r.Restarts) != 1 || !slices.Equal(r.Killed, []int{1}) {
		t.Errorf("%+v", r)
	}
}

// The process of a task that failed waits for the others, who wait for it.
func TestJobIsRestartedWhenATaskReturnsAnError(t *testing.T) {
	t.Parallel()
	c := own(3, "failing")
	c.Restart = 1
	r := c.run(t)
	if r.Exit != 1 || len(r.Restarts) != 1 || !strings.Contains(r.Cause, "no more paper") || !strings.Contains(r.Restarts[0].Cause, "no more paper") {
		t.Errorf("%+v", r)
	}
}

func TestKillsOfTheLauncherAreForTheFirstStart(t *testing.T) {
	t.Parallel()
	c := shell(2, "while [ ! -e again ]; do sleep 0.01; done")
	c.Restart, c.Dir = 1, t.TempDir()
	c.Kills = []control.Kill{{Task: 1, After: time.Millisecond}}
	c.Notice = func(string) { // it is being restarted
		if err := os.WriteFile(filepath.Join(c.Dir, "again"), nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	if r := c.run(t); r.Exit != 0 || len(r.Restarts) != 1 || !strings.Contains(r.Restarts[0].Cause, "(--kill 1@1ms)") {
		t.Errorf("%+v", r)
	}
}

func TestKillsOfProcessesAreForTheFirstStart(t *testing.T) {
	t.Parallel()
	c := own(2, "member", "0", "no ink")
	c.Restart, c.Kills = 1, []control.Kill{{Task: 1, Op: "gather", Seq: 1}}
	r := c.run(t)
	if len(r.Restarts) != 1 || strings.Count(c.notices.String(), "never came about") != 1 {
		t.Errorf("%+v, %s", r, c.notices.String())
	}
	c.out.await(t, `settings {"network":"memory"}`, 1)
	c.out.await(t, `settings {"kill":\["1@gather#1"\],"network":"memory"}`, 1)
}

func TestSignalEndsAJobThatMayBeRestarted(t *testing.T) {
	t.Parallel()
	c := own(2, "patient")
	c.Restart = 5
	wait := c.begin(t)
	c.out.await(t, `pid (\d+)`, 2)
	c.signals <- syscall.SIGINT
	if r := wait(); r.Exit != 1 || r.Signal != "SIGINT" || len(r.Restarts) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestTimeoutIsThatOfAllStarts(t *testing.T) {
	t.Parallel()
	c := shell(1, "sleep 0.1; exit 1")
	c.Restart, c.Timeout = 1000, 350*time.Millisecond
	if r := c.run(t); r.Exit != 1 || !r.Timeout || len(r.Restarts) > 3 {
		t.Errorf("%+v", r)
	}
}

func TestWrongRestartsAreRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"-1 restarts; allowed: 0 or more": func(c *Config) { c.Restart = -1 },
		"respawned; allowed: one of them": func(c *Config) { c.Respawn = RespawnAlways },
		"can be read once; allowed: none": func(c *Config) { c.StdinRank = 1 },
	} {
		c := shell(2, "true").Config
		c.Restart = 1
		change(&c)
		if _, err := New(c); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
