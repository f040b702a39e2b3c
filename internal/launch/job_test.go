//go:build unix

package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/transport"
)

// shelf is where the tests of a job look for what it left.
func shelf(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "l") // short: for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(control.VarParent, dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v (%v)", left, err)
		}
		os.RemoveAll(dir)
	})
	return dir
}

// text is a buffer that may be read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *text) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *text) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// await waits until a text matches so often, and returns the first groups.
func (s *text) await(t *testing.T, pattern string, times int) (groups []string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(time.Millisecond) {
		if found := re.FindAllStringSubmatch(s.String(), -1); len(found) >= times {
			for _, f := range found {
				groups = append(groups, f[len(f)-1])
			}
			return groups
		}
	}
	t.Fatalf("%q does not come %d times in %q", pattern, times, s.String())
	return nil
}

func numbers(t *testing.T, words []string) (all []int) {
	t.Helper()
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// lines are those of a text, in order.
func lines(s string) []string { return slices.Sorted(strings.Lines(s)) }

// test is a job of a test: a config with what it shows and says.
type test struct {
	Config
	out, err, notices text
	signals           chan os.Signal
}

// shell is a test of n processes of a shell script.
func shell(n int, script string) *test {
	c := &test{Config: Config{N: n, Program: "sh", Args: []string{"-c", script}, StdinRank: -1}}
	return c.prepare()
}

// own is a test of n processes of one of our programs.
func own(n int, program string, args ...string) *test {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c := &test{Config: Config{N: n, Program: self, Args: args, Env: []string{programVar + "=" + program, transport.ChooseVariable + "=" + transport.Shared}, StdinRank: -1}}
	return c.prepare()
}

func (c *test) prepare() *test {
	c.signals = make(chan os.Signal, 4)
	c.Signals = c.signals
	c.Output = Output{Stdout: &c.out, Stderr: &c.err, Prefix: true}
	c.Notice = func(line string) { fmt.Fprintln(&c.notices, line) }
	return c
}

func (c *test) run(t *testing.T) *Report {
	t.Helper()
	plan, err := New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	report, err := plan.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// begin runs the job in the background.
func (c *test) begin(t *testing.T) (wait func() *Report) {
	t.Helper()
	done := make(chan *Report, 1)
	go func() { done <- c.run(t) }()
	return func() *Report {
		select {
		case r := <-done:
			return r
		case <-time.After(time.Minute):
			t.Fatal("the job does not end")
			return nil
		}
	}
}

func TestAnyProgramIsRun(t *testing.T) {
	shelf(t)
	c := shell(3, `echo $COPPICE_RANK/$COPPICE_SIZE $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $COPPICE_INCARNATION; echo $EXTRA $COPPICE_LISTEN$COPPICE_KEY >&2`)
	c.Env = []string{"EXTRA=more"}
	t.Setenv("COPPICE_LISTEN", "here")
	t.Setenv("COPPICE_KEY", "of another job")
	t.Setenv("RANK", "77")
	r := c.run(t)
	if r.Exit != 0 || r.Cause != "" || len(r.Killed) != 0 || len(r.Tasks) != 3 {
		t.Errorf("report %+v", r)
	}
	want := []string{"[0] 0/3 0/3 0/3 1\n", "[1] 1/3 1/3 1/3 1\n", "[2] 2/3 2/3 2/3 1\n"}
	if got := lines(c.out.String()); !slices.Equal(got, want) {
		t.Errorf("standard output %q, want %q", got, want)
	}
	want = []string{"[0] more here\n", "[1] more here\n", "[2] more here\n"}
	if got := lines(c.err.String()); !slices.Equal(got, want) {
		t.Errorf("standard error %q, want %q", got, want)
	}
}

func TestTheSecretIsNotInTheEnvironment(t *testing.T) {
	shelf(t)
	t.Setenv("COPPICE_KEY", "of another job")
	c := own(1, "secrets")
	c.run(t)
	out := c.out.String()
	key := regexp.MustCompile(`key: ([0-9a-f]{64})\n`).FindStringSubmatch(out)
	if key == nil || strings.Count(out, key[1]) != 1 || strings.Contains(out, "COPPICE_KEY") {
		t.Errorf("key %v in %s", key, out)
	}
	if !regexp.MustCompile(`(?s)\] drwx------.*\] -rw-------`).MatchString(out) {
		t.Errorf("modes: %s", out)
	}
}

func TestDeathsAreSurvivedAndFailuresAreNot(t *testing.T) {
	shelf(t)
	for _, c := range []struct {
		name, script string
		exit         int
		killed, lost []int
		cause        string
	}{
		{"all well", `exit 0`, 0, nil, nil, `^$`},
		{"one dies", `[ $RANK = 1 ] && kill -9 $$; exit 0`, 0, []int{1}, []int{1}, `^task 1 was killed by SIGKILL, \d+\.\d\d s after the start; the others ended well$`},
		{"two die", `[ $RANK = 0 ] && exit 0; kill -SEGV $$`, 0, []int{1, 2}, []int{1, 2}, `^task [12] was killed by SIGSEGV, .* s after the start; then 1 other died; the rest ended well$`},
		{"all die", `kill -9 $$`, 1, []int{0, 1, 2}, []int{0, 1, 2}, `^task \d was killed by SIGKILL, .*; then 2 others died$`},
		{"one fails", `[ $RANK = 2 ] && exit 3; exit 0`, 1, nil, nil, `^task 2 ended with exit code 3, \d+\.\d\d s after the start$`},
		{"the first is named", firstOneThenTwo, 1, []int{1}, []int{1}, `^task 1 was killed by SIGKILL, \d+\.\d\d s after the start; then 1 other failed$`},
		{"a shell's own code is no signal", `exit 137`, 1, nil, nil, `^task \d ended with exit code 137, .*; then 2 others failed$`},
	} {
		job := shell(3, c.script)
		r := job.run(t)
		if r.Exit != c.exit || !slices.Equal(r.Killed, c.killed) || !slices.Equal(r.Lost, c.lost) {
			t.Errorf("%s: exit %d, killed %v, lost %v; want %d, %v, %v", c.name, r.Exit, r.Killed, r.Lost, c.exit, c.killed, c.lost)
		}
		if !regexp.MustCompile(c.cause).MatchString(r.Cause) {
			t.Errorf("%s: cause %q, want %q", c.name, r.Cause, c.cause)
		}
	}
}

// firstOneThenTwo: rank 2 fails once rank 1 is dead. The shell alone does it: there
// may be no other program.
const firstOneThenTwo = `pid=$COPPICE_DIR/pid
[ $RANK = 0 ] && exit 0
[ $RANK = 1 ] && { echo $$ > $pid; kill -9 $$; }
until [ -s $pid ]; do :; done
read first < $pid
while kill -0 $first 2>/dev/null; do :; done
exit 3`

func TestEveryByteOfTheDeadIsShown(t *testing.T) {
	shelf(t)
	c := own(4, "flood")
	c.Output.LogDir = filepath.Join(t.TempDir(), "new", "logs")
	r := c.run(t)
	if !slices.Equal(r.Killed, []int{0, 1, 2, 3}) {
		t.Errorf("report %+v", r)
	}
	var log strings.Builder
	for i := range floodLines {
		fmt.Fprintf(&log, "line %d\n", i)
	}
	log.WriteString("the end")
	for rank := range 4 {
		var got strings.Builder
		own := fmt.Sprintf("[%d] ", rank)
		for line := range strings.Lines(c.out.String()) {
			if rest, ok := strings.CutPrefix(line, own); ok {
				got.WriteString(rest)
			}
		}
		if got.String() != log.String()+"\n" {
			t.Errorf("rank %d: %d bytes shown, want %d", rank, got.Len(), log.Len()+1)
		}
		for name, want := range map[string]string{"out": log.String(), "err": "dying"} {
			file, err := os.ReadFile(filepath.Join(c.Output.LogDir, fmt.Sprintf("%d.%s", rank, name)))
			if err != nil || string(file) != want {
				t.Errorf("rank %d: log of %d bytes (%v), want %d", rank, len(file), err, len(want))
			}
		}
	}
}

func TestOneProcessReadsStandardInput(t *testing.T) {
	shelf(t)
	for reader := -1; reader < 3; reader++ {
		input, err := os.CreateTemp(t.TempDir(), "input")
		if err != nil {
			t.Fatal(err)
		}
		defer input.Close()
		if _, err := input.WriteString("hello"); err != nil {
			t.Fatal(err)
		}
		if _, err := input.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		c := shell(3, `read line; echo "got $line"`)
		c.Input, c.StdinRank = input, reader
		c.run(t)
		var want []string
		for rank := range 3 {
			line := fmt.Sprintf("[%d] got \n", rank)
			if rank == reader {
				line = fmt.Sprintf("[%d] got hello\n", rank)
			}
			want = append(want, line)
		}
		if got := lines(c.out.String()); !slices.Equal(got, want) {
			t.Errorf("reader %d: %q, want %q", reader, got, want)
		}
	}
}

func TestWhoHoldsThePipeIsNotWaitedFor(t *testing.T) {
	shelf(t)
	c := shell(2, `setsid sleep 300 & echo pid $!; echo done`)
	began := time.Now()
	c.run(t)
	took := time.Since(began)
	for _, pid := range numbers(t, c.out.await(t, `pid (\d+)`, 2)) {
		syscall.Kill(pid, syscall.SIGKILL) // outside the group: the launcher may not
	}
	if took > time.Minute || strings.Count(c.out.String(), "done") != 2 {
		t.Errorf("took %v, shown %q", took, c.out.String())
	}
}

func TestNoGrandchildIsLeft(t *testing.T) {
	shelf(t)
	c := shell(2, `sleep 300 & echo pid $!`)
	c.run(t)
	gone(t, numbers(t, c.out.await(t, `pid (\d+)`, 2))...)
}

func TestTimeoutAsksForGoroutinesAndKills(t *testing.T) {
	t.Parallel() // it waits
	c := own(3, "stuck")
	c.Timeout = 3 * time.Second
	r := c.run(t)
	if r.Exit != 1 || !r.Timeout || r.Cause != "time-out after 3s, when tasks 0-2 still ran" {
		t.Errorf("exit %d, time-out %v, cause %q", r.Exit, r.Timeout, r.Cause)
	}
	if got := strings.Count(c.err.String(), "goroutine 1 "); got < 3 {
		t.Errorf("%d dumps in %q", got, c.err.String())
	}
	if !strings.Contains(c.notices.String(), "tasks 0-2 still running") {
		t.Errorf("notices %q", c.notices.String())
	}
}

func TestTimeoutKillsWhoIgnoresTheQuestion(t *testing.T) {
	t.Parallel() // it waits
	c := shell(2, `[ $RANK = 0 ] && exit 5; trap '' QUIT; while :; do sleep 0.1; done`)
	c.Timeout = 3 * time.Second
	r := c.run(t)
	if r.Exit != 1 || r.Tasks[1].Signal != "SIGKILL" || r.Tasks[1].Why != whyTimeout || r.Seconds < dumpTime.Seconds() {
		t.Errorf("report %+v", r)
	}
	if !regexp.MustCompile(`^time-out after 3s, when task 1 still ran; before that task 0 ended with exit code 5, .* s after the start$`).MatchString(r.Cause) {
		t.Errorf("cause %q", r.Cause)
	}
}

func TestTheFirstSignalIsPassedOn(t *testing.T) {
	shelf(t)
	c := shell(2, `trap 'echo caught; exit 0' INT; echo ready; while :; do sleep 0.01; done`)
	wait := c.begin(t)
	c.out.await(t, "ready", 2)
	c.signals <- syscall.SIGINT
	r := wait()
	if r.Exit != 1 || r.Signal != "SIGINT" || r.Cause != "interrupted by SIGINT" || len(r.Killed) != 0 {
		t.Errorf("report %+v", r)
	}
	if strings.Count(c.out.String(), "caught") != 2 {
		t.Errorf("shown %q", c.out.String())
	}
	if want := "SIGINT: passed on to tasks 0, 1; once more kills\n"; c.notices.String() != want {
		t.Errorf("notice %q, want %q", c.notices.String(), want)
	}
}

func TestTheSecondSignalKills(t *testing.T) {
	shelf(t)
	c := shell(2, `trap 'echo ignored' INT TERM; echo ready; while :; do sleep 0.01; done`)
	wait := c.begin(t)
	c.out.await(t, "ready", 2)
	c.signals <- syscall.SIGTERM
	c.out.await(t, "ignored", 2)
	c.signals <- syscall.SIGINT
	r := wait()
	if r.Exit != 1 || r.Signal != "SIGTERM" || !slices.Equal(r.Killed, []int{0, 1}) || r.Tasks[1].Why != whyInterrupted {
		t.Errorf("report %+v", r)
	}
}

func TestWhoDoesNotHeedASignalIsKilledInTheEnd(t *testing.T) {
	shelf(t)
	c := shell(2, `trap 'echo ignored' TERM; echo ready; while :; do sleep 0.01; done`)
	c.Grace = 200 * time.Millisecond
	wait := c.begin(t)
	c.out.await(t, "ready", 2)
	c.signals <- syscall.SIGTERM
	if r := wait(); r.Exit != 1 || r.Signal != "SIGTERM" || !slices.Equal(r.Killed, []int{0, 1}) {
		t.Errorf("report %+v", r)
	}
	if !strings.Contains(c.notices.String(), "within 200ms: killing tasks 0, 1\n") {
		t.Errorf("notices %q", c.notices.String())
	}
}

func TestASignalStopsTheJobGracefully(t *testing.T) {
	shelf(t)
	c := shell(2, `trap '' INT; exec "$0"`)
	c.Args = append(c.Args, own(1, "").Program)
	c.Env = []string{programVar + "=patient"}
	wait := c.begin(t)
	c.out.await(t, "pid", 2)
	c.signals <- syscall.SIGINT
	r := wait()
	if r.Tasks[0].Exit == nil || *r.Tasks[0].Exit != 0 || strings.Count(c.out.String(), "stopped: the launcher received SIGINT") != 2 {
		t.Errorf("report %+v, shown %q", r, c.out.String())
	}
}

// The first signal may come while the process still runs; the second does not.
func TestABlockedReaderIsLeftByTwoSignals(t *testing.T) {
	t.Parallel() // it waits
	c := shell(1, `echo hi`)
	blocked := make(writerFunc)
	c.Output.Stdout = blocked
	wait := c.begin(t)
	<-blocked // somebody writes
	c.signals <- syscall.SIGINT
	c.signals <- syscall.SIGINT
	if r := wait(); r.Exit != 1 || r.Signal != "SIGINT" {
		t.Errorf("report %+v", r)
	}
	<-blocked // and goes on, for goleak
}

// writerFunc blocks twice.
type writerFunc chan struct{}

func (w writerFunc) Write(b []byte) (int, error) {
	w <- struct{}{}
	w <- struct{}{}
	return len(b), nil
}

func TestOutputThatNobodyReadsEndsWhoWritesIt(t *testing.T) {
	shelf(t)
	c := shell(2, `while echo y; do :; done 2>/dev/null`)
	c.Output.Stdout = brokenWriter{}
	c.Output.LogDir = t.TempDir()
	r := c.run(t)
	if r.Exit != 1 || !strings.HasPrefix(r.Cause, "what the tasks wrote was lost: broken pipe") {
		t.Errorf("report %+v", r)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestMembersMeetAndEnd(t *testing.T) {
	shelf(t)
	c := own(8, "member")
	c.Settings = control.Settings{Silence: 5 * time.Second}
	c.Kills = []control.Kill{{Task: 2, Op: "reduce", Seq: 9}}
	r := c.run(t)
	if r.Exit != 0 || !r.Tasks[7].Joined {
		t.Errorf("report %+v", r)
	}
	if got := strings.Count(c.out.String(), `joined, settings {"kill":["2@reduce#9"],"network":"memory","silence":5000000000}`); got != 8 {
		t.Errorf("shown %q", c.out.String())
	}
	if want := "--kill 2@reduce#9 never came about\n"; c.notices.String() != want {
		t.Errorf("notices %q, want %q", c.notices.String(), want)
	}
}

func TestWhatAProcessSaysOfItsFailureIsReported(t *testing.T) {
	shelf(t)
	r := own(3, "member", "1", "cannot", "read\nthe", "input").run(t)
	if r.Exit != 1 || !regexp.MustCompile(`^task 1 ended with exit code 1, .* s after the start: cannot read the input$`).MatchString(r.Cause) {
		t.Errorf("exit %d, cause %q", r.Exit, r.Cause)
	}
}

// The process that joined is the task's, whatever started it.
func TestKillsReachTheProcessThatJoined(t *testing.T) {
	t.Parallel() // it waits
	var waits []func()
	for _, script := range []string{"", `exec "$0"`, `"$0"; exit $?`, `"$0" & wait $!`} {
		c := own(3, "patient")
		if script != "" {
			c.Args = []string{"-c", script, c.Program}
			c.Program = "sh"
		}
		c.Kills = []control.Kill{{Task: 1, After: 4 * time.Second}} // all have joined, on a busy machine, too
		wait := c.begin(t)
		waits = append(waits, func() {
			r := wait()
			if r.Exit != 0 || !slices.Equal(r.Killed, []int{1}) || !slices.Equal(r.Lost, []int{1}) || r.Tasks[1].Signal != "SIGKILL" || r.Tasks[1].Why != "--kill 1@4s" {
				t.Errorf("%q: report %+v", script, r)
			}
			if got := strings.Count(c.out.String(), "death: rank 1"); got != 2 {
				t.Errorf("%q: shown %q", script, c.out.String())
			}
		})
	}
	for _, wait := range waits {
		wait()
	}
}

// A process that stands still is fenced: here by the coordinator, on another
// host by its agent.
func TestASilentProcessIsKilled(t *testing.T) {
	t.Parallel() // it waits
	var waits []func()
	for _, hosts := range [][]Host{nil, {{"a", 1}, {"b", 2}}} {
		c := own(3, "patient")
		if hosts != nil {
			c.onHosts(t, hosts...)
		}
		c.Silence = 2 * time.Second
		wait := c.begin(t)
		pid := numbers(t, c.out.await(t, `\[1\] pid (\d+)`, 1))[0]
		syscall.Kill(pid, syscall.SIGSTOP)
		waits = append(waits, func() {
			r := wait()
			if r.Exit != 0 || !slices.Equal(r.Killed, []int{1}) || r.Tasks[1].Signal != "SIGKILL" || !strings.Contains(r.Tasks[1].Why, "silent for ") {
				t.Errorf("hosts %v: report %+v", hosts, r)
			}
		})
	}
	for _, wait := range waits {
		wait()
	}
}

// One that stands still before it has joined the coordinator cannot kill: the launcher,
// or the agent, has started it, and does.
func TestWhoNeverJoinsIsKilled(t *testing.T) {
	t.Parallel() // it waits
	for _, hosts := range [][]Host{nil, {{"a", 1}, {"b", 2}}} {
		c := own(3, "stopped")
		if hosts != nil {
			c.onHosts(t, hosts...)
		}
		c.JoinTimeout = 2 * time.Second
		r := c.begin(t)()
		if r.Exit != 0 || !slices.Equal(r.Killed, []int{1}) || r.Tasks[1].Signal != "SIGKILL" || r.Tasks[1].Why != "never joined within 2s" {
			t.Errorf("hosts %v: report %+v", hosts, r)
		}
	}
}

// After the job's end nobody is waited for who has no more to do.
func TestWhoLingersIsKilled(t *testing.T) {
	t.Parallel() // it waits
	c := own(3, "late", strconv.Itoa(int(syscall.SIGSTOP)))
	c.Abrupt, c.Silence = true, time.Second
	r := c.begin(t)()
	if r.Exit != 0 || !slices.Equal(r.Killed, []int{1}) || len(r.Lost) != 0 || r.Tasks[1].Why != "still there when the job was over" {
		t.Errorf("report %+v", r)
	}
}

func TestALogThatCannotBeWrittenFailsTheRun(t *testing.T) {
	shelf(t)
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full, to which nothing can be written: runs on Linux:", err)
	}
	c := shell(1, `echo hi; sleep 0.1; echo there; exit 0`)
	c.Output.LogDir = t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(c.Output.LogDir, "0.out")); err != nil {
		t.Fatal(err)
	}
	r := c.run(t)
	if r.Exit != 1 || !strings.Contains(r.Cause, "0.out: no space left on device") {
		t.Errorf("report %+v", r)
	}
}

// A wrapper that does not wait for its process is not the task.
func TestAWrapperMayLeaveItsProcess(t *testing.T) {
	shelf(t)
	c := own(2, "patient")
	// The shell stays until its process has said that it joined.
	c.Args = []string{"-c", `"$0" & while ! [ -e "$MARK$RANK" ]; do sleep 0.01; done; exit 0`, c.Program}
	c.Program = "sh"
	mark := filepath.Join(t.TempDir(), "mark")
	c.Env = append(c.Env, "MARK="+mark)
	wait := c.begin(t)
	pids := numbers(t, c.out.await(t, `pid (\d+)`, 2))
	for rank := range 2 {
		if err := os.WriteFile(mark+strconv.Itoa(rank), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("process %d went with its wrapper", pid)
		}
	}
	syscall.Kill(pids[0], syscall.SIGKILL)
	wait()
	if got := strings.Count(c.out.String(), "death: rank"); got != 1 {
		t.Errorf("shown %q", c.out.String())
	}
}

func TestNoOrphansWhenTheLauncherIsKilled(t *testing.T) {
	dir, err := os.MkdirTemp("", "l")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) // nobody is left to do it
	self := own(1, "").Program
	for _, config := range []string{
		fmt.Sprintf(`{"N": 4, "Program": %q, "Env": ["%s=patient"]}`, self, programVar),
		fmt.Sprintf(`{"N": 4, "Program": "sh", "Args": ["-c", "\"$0\"; exit $?", %q], "Env": ["%s=patient"]}`, self, programVar),
		`{"N": 4, "Program": "sh", "Args": ["-c", "echo pid $$; exec sleep 300"]}`,
	} {
		var out text
		cmd := exec.Command(self, config)
		cmd.Env = append(os.Environ(), programVar+"=launcher", "COPPICE_JOBS_DIR="+dir)
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.WaitDelay = 5 * time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pids := numbers(t, out.await(t, `pid (\d+)`, 4))
		cmd.Process.Kill()
		_ = cmd.Wait()
		gone(t, pids...)
	}
}

func TestWhatCannotBeStartedLeavesNothing(t *testing.T) {
	shelf(t)
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("\x00\x01\x02"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	c := shell(4, "")
	c.Program = file
	c.Output.LogDir = t.TempDir()
	plan, err := New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = plan.Run(context.Background())
	if want := fmt.Sprintf("program %s: exec format error; allowed: an executable file", file); err == nil || err.Error() != want || !errors.As(err, new(InputError)) {
		t.Errorf("error %v, want %s", err, want)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

func TestDescriptorsAreGivenBack(t *testing.T) {
	shelf(t)
	shell(2, `exit 0`).run(t) // what the runtime opens once
	before := descriptors(t)
	for range 3 {
		own(4, "member").run(t)
		shell(4, `echo hi; kill -9 $$`).run(t)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("counts open descriptors, which needs /proc: runs on Linux:", err)
	}
	return len(open)
}

func TestAContextEndsTheJob(t *testing.T) {
	shelf(t)
	c := shell(2, `echo ready; exec sleep 300`)
	plan, err := New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 200*time.Millisecond, errors.New("no more time"))
	defer cancel()
	r, err := plan.Run(ctx)
	if err != nil || r.Exit != 1 || !slices.Equal(r.Killed, []int{0, 1}) || r.Cause != "no more time" {
		t.Errorf("report %+v (%v)", r, err)
	}
}

// BenchmarkStart is a job of 32 Go processes that meet and end.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		plan, err := New(own(32, "member").Config)
		if err != nil {
			b.Fatal(err)
		}
		if r, err := plan.Run(context.Background()); err != nil || r.Exit != 0 {
			b.Fatalf("%+v (%v)", r, err)
		}
	}
}
