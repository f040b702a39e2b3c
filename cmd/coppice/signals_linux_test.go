package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/posix"
)

// launcher is one that a test has started.
type launcher struct {
	*exec.Cmd
	errors bytes.Buffer
}

func startLauncher(t *testing.T, stdout io.Writer, args ...string) *launcher {
	t.Helper()
	// What is ignored here (nohup, a shell's &) a child would ignore, too, but not what is caught.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(caught)
	l := &launcher{Cmd: exec.Command("coppice", args...)}
	l.Stdout, l.Stderr = stdout, &l.errors
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Process.Kill()
		l.Wait()
	})
	return l
}

// await polls for what is to come about, unless the launcher ends before.
func (l *launcher) await(came func() bool) {
	for !came() && status(l.Process.Pid) != "Z" {
		time.Sleep(time.Millisecond)
	}
}

// processes are those of the job.
func (l *launcher) processes() (ids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", l.Process.Pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // whose thread may be gone
		for _, word := range strings.Fields(string(text)) {
			id, _ := strconv.Atoi(word)
			ids = append(ids, id)
		}
	}
	return ids
}

// status is the letter that the kernel has for what a process does.
func status(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return string(rest[:min(1, len(rest))])
}

// ends waits, and wants an end and all that was written to standard error.
func (l *launcher) ends(t *testing.T, how, errors string) {
	t.Helper()
	l.Wait()
	if got := l.ProcessState.String(); got != how {
		t.Errorf("%v: %v, want %s; it says %q", l.Args, got, how, &l.errors)
	}
	if !regexp.MustCompile(`\A` + errors + `\z`).MatchString(l.errors.String()) {
		t.Errorf("%v says %q, want %s", l.Args, &l.errors, errors)
	}
}

func TestSignalToTheLauncherEndsAll(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{
		"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP, "SIGQUIT": syscall.SIGQUIT,
	} {
		l := startLauncher(t, nil, "tpch", "--sf", "1", "-n", "3")
		l.await(func() bool { return len(l.processes()) == 3 })
		ids := l.processes()
		l.Process.Signal(sig)
		how := "signal: " + sig.String()
		if sig == syscall.SIGQUIT {
			how = "exit status 1"
		}
		l.ends(t, how, "coppice: interrupted by "+name+"\n")
		for _, id := range ids {
			if now := status(id); now != "" {
				t.Errorf("%s: process %d is left: %s", name, id, now)
			}
		}
	}
}

// TestSignalToOneProcessIsSurvived: kill PID is what people try.
func TestSignalToOneProcessIsSurvived(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // short: for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("COPPICE_JOBS_DIR", dir)
	for _, args := range [][]string{{"sort", "--keys", "1000000"}, {"tpch", "--sf", "0.05"}} {
		l := startLauncher(t, nil, append(args, "-n", "3")...)
		l.await(func() bool { // all are at work
			sockets, _ := filepath.Glob(filepath.Join(dir, "coppice-*", "[0-2].sock"))
			return len(sockets) == 3
		})
		if ids := l.processes(); len(ids) > 1 {
			syscall.Kill(ids[1], syscall.SIGTERM)
		}
		l.ends(t, "exit status 0", `(coppice: .* was killed by SIGTERM, .*\n)?`) // unless it had ended
	}
}

// TestSignalLeavesNoHalfOutput: whoever has much to move or to remove finishes it. What makes it long are files that
// the test has put there.
func TestSignalLeavesNoHalfOutput(t *testing.T) {
	t.Parallel()
	in := t.TempDir()
	if err := writeFile(filepath.Join(in, "records"), strings.Repeat("abcdefghij", 1_000_000)); err != nil {
		t.Fatal(err)
	}
	for name, early := range map[string]bool{"while it discards": true, "while it publishes": false} {
		more, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
		for i := range 1500 {
			if err := writeFile(filepath.Join(more, fmt.Sprint(i)), ""); err != nil {
				t.Fatal(err)
			}
		}
		l := startLauncher(t, nil, "sort", "--input", in, "--output", out, "-n", "3")
		var stage []string
		l.await(func() bool {
			stage, _ = filepath.Glob(filepath.Join(out, ".coppice-sort-*"))
			return stage != nil
		})
		there := filepath.Join(append(stage, "more")...)
		_ = os.Rename(more, there) // if it has not gone already
		if early {
			l.Process.Signal(syscall.SIGINT)
		}
		l.await(func() bool {
			left, _ := os.ReadDir(there)
			return len(left) < 1500
		})
		for status(l.Process.Pid) != "Z" {
			l.Process.Signal(syscall.SIGINT)
			time.Sleep(time.Millisecond)
		}
		names, _ := filepath.Glob(filepath.Join(out, "*"))
		hidden, _ := filepath.Glob(filepath.Join(out, ".*"))
		whole := len(names) == 3
		if len(hidden) > 0 || !whole && len(names) > 0 {
			t.Errorf("%s: %q and %q are left", name, names, hidden)
		}
		if !whole {
			l.ends(t, "signal: interrupt", "coppice: interrupted by SIGINT\n")
		}
	}
}

// TestSignalEndsTheDemo: after what it does it says in one line that it was ended, and has no word of those that the launcher kills then.
func TestSignalEndsTheDemo(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l := startLauncher(t, w, "demo", "--sf", "0.1")
	w.Close()
	lines, deaths := bufio.NewScanner(r), 0
	for lines.Scan() {
		if strings.Contains(lines.Text(), "is dead") {
			if deaths++; deaths == 1 {
				l.Process.Signal(syscall.SIGQUIT)
			}
		}
	}
	if deaths == 0 || deaths > 2 {
		t.Errorf("%d deaths are told", deaths)
	}
	l.ends(t, "exit status 1", "coppice: building .*\ncoppice: interrupted by SIGQUIT.*\n")
}

// TestTimeoutEndsALauncherThatNobodyReads: neither what the processes write nor the last line can be written.
func TestTimeoutEndsALauncherThatNobodyReads(t *testing.T) {
	t.Parallel() // it waits
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	to.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	for err == nil { // until it is full
		_, err = to.Write(make([]byte, 1<<12))
	}
	cmd := exec.Command("coppice", "run", "-n", "2", "--timeout", "50ms", "--", "sleep", "100")
	cmd.Stdout, cmd.Stderr = to, to
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() }).Stop()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("%v, want exit code %d", err, exitFailed)
	}
}

// TestSignalEndsEveryCommand: after it has cleaned up, by the signal, so that a loop in a shell ends, too.
func TestSignalEndsEveryCommand(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		args  string
		ready func(*launcher) bool // nil: two processes run
		says  string
	}{
		{"bench --op barrier -n 2 --iterations 10000000", nil, "coppice: interrupted by SIGINT\n"},
		{"bench recovery -n 3 --rounds 10000", nil, "coppice: interrupted by SIGINT\n"},
		{"probe -n 2 --rounds 1000000", nil, "coppice: interrupted by SIGINT\n"},
		{"run -n 2 -- sleep 600", nil, "coppice: SIGINT: passed on to tasks 0, 1; once more kills\ncoppice: interrupted by SIGINT.*\n"},
		{"reproduce trees-fig7 --runs 1000000 --out " + out, func(*launcher) bool {
			_, err := os.Stat(out)
			return err == nil
		}, "(coppice: interrupted by SIGINT; the same command goes on from here\n)?"}, // it may take signals a little later
	} {
		l := startLauncher(t, nil, strings.Fields(c.args)...)
		l.await(func() bool {
			if c.ready != nil {
				return c.ready(l)
			}
			return len(l.processes()) >= 2
		})
		l.Process.Signal(syscall.SIGINT)
		l.ends(t, "signal: interrupt", c.says)
	}
}

// TestSignalEndsAWaitAndNotTheJob: with one line, whichever signal it is.
func TestSignalEndsAWaitAndNotTheJob(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	name, err := exec.Command("coppice", "run", "--detach", "-n", "1", "--", "sleep", "600").Output()
	if err != nil {
		t.Fatal(err)
	}
	job, err := found(strings.TrimSpace(string(name)))
	if err != nil {
		t.Fatal(err)
	}
	defer job.Signal(syscall.SIGKILL)
	for sig, how := range map[syscall.Signal]string{
		syscall.SIGINT: "signal: interrupt", syscall.SIGTERM: "signal: terminated", syscall.SIGHUP: "signal: hangup", syscall.SIGQUIT: "exit status 1",
	} {
		for soon := 50 * time.Millisecond; ; soon *= 2 {
			l := startLauncher(t, nil, "wait", job.Name)
			time.Sleep(soon)
			l.Process.Signal(sig)
			l.Wait()
			want := "coppice: interrupted by " + posix.SignalName(sig) + "\n"
			if got := l.errors.String(); l.ProcessState.String() == how && got == want {
				break
			} else if soon > 10*time.Second { // until then the signal may have come before the command was ready
				t.Errorf("%v: %v, %q; want %s, %q", sig, l.ProcessState, got, how, want)
				break
			}
		}
	}
	if !job.Runs() {
		t.Error("the job has ended")
	}
}
