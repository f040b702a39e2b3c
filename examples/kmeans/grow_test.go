//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

// hurryVariable names a file: this binary is then the program, and rests in each round until that file
// exists. So a job lasts as long as a test needs, and its result is always the same.
const hurryVariable = "TEST_HURRY"

// long are settings of a job that rests for 12 s if nobody hurries it.
var long = settings{points: 2000, k: 5, dims: 2, rounds: 600, tasks: 8}

func TestMain(m *testing.M) {
	if file := os.Getenv(hurryVariable); file != "" {
		perform(file)
	}
	os.Exit(m.Run())
}

// perform is the main function of a started process.
func perform(hurry string) {
	s := long
	s.rest = func(now *state) {
		if _, err := os.Stat(hurry); err != nil {
			fmt.Println("round", now.Round)
			time.Sleep(20 * time.Millisecond)
		}
	}
	job := coppice.Job{Tasks: s.tasks}
	if err := job.Run(context.Background(), s.program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// launched is a job under coppice run.
type launched struct {
	coppice string // the command
	env     []string
	rounds  atomic.Int64 // that were reported
	result  string
	err     error
	over    chan struct{} // closed when it has ended, with result and err
}

// launch starts a job of two processes, which six more may join.
func launch(t *testing.T, hurry string) *launched {
	t.Helper()
	dir, err := os.MkdirTemp("", "k") // short: for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := &launched{coppice: filepath.Join(dir, "coppice"), over: make(chan struct{})}
	if out, err := exec.Command("go", "build", "-o", l.coppice, "../../cmd/coppice").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l.env = append(os.Environ(), "COPPICE_JOBS_DIR="+dir, hurryVariable+"="+hurry)
	cmd := l.command(t, "run", "-n", "2", "--grow", "6", "--no-prefix", "--timeout", "5m", "--", self)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { <-l.over }) // the test's context has ended, and with it the launcher
	go func() {
		defer close(l.over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "round ") {
				l.rounds.Add(1)
			} else {
				l.result += lines.Text() + "\n"
			}
		}
		l.err = cmd.Wait()
		t.Log("coppice run:", errs.String())
	}()
	return l
}

// command returns a call of the command coppice.
func (l *launched) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), l.coppice, args...)
	cmd.Env = l.env
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// owner is a process that has tasks.
type owner struct {
	ID    int   `json:"id"`
	Pid   int   `json:"pid"`
	Tasks []int `json:"tasks"`
}

// owners returns the processes that have tasks.
func (l *launched) owners(t *testing.T) (all []owner) {
	t.Helper()
	text, err := l.command(t, "members", "--json").Output()
	var m struct{ Members []owner }
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatalf("members: %v", err)
	}
	for _, o := range m.Members {
		if len(o.Tasks) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// await waits until so returns true.
func (l *launched) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after %d rounds: not yet %s", l.rounds.Load(), what)
		}
	}
}

// further waits for some more rounds: then everything that was saved has its copies again.
func (l *launched) further(t *testing.T, rounds int64) {
	t.Helper()
	to := l.rounds.Load() + rounds
	l.await(t, fmt.Sprint("round ", to), func() bool { return l.rounds.Load() >= to })
}

// TestGrowsAndShrinks: a job of two processes grows to eight, of which five are killed. The result
// equals that of a single process.
func TestGrowsAndShrinks(t *testing.T) {
	hurry := filepath.Join(t.TempDir(), "hurry")
	l := launch(t, hurry)
	l.further(t, 3)
	if out, err := l.command(t, "join", "-n", "6").CombinedOutput(); err != nil {
		t.Fatalf("join: %v: %s", err, out)
	}
	l.await(t, "8 owners", func() bool {
		time.Sleep(50 * time.Millisecond) // the command takes as much of a processor as a job
		return len(l.owners(t)) == 8
	})
	for _, o := range l.owners(t)[:5] { // task 0 is among theirs
		if err := syscall.Kill(o.Pid, syscall.SIGKILL); err != nil {
			t.Fatalf("process %d: %v", o.ID, err)
		}
		l.further(t, 3)
	}
	if n := len(l.owners(t)); n != 3 {
		t.Errorf("%d processes have tasks, want 3", n)
	}
	if rounds := l.rounds.Load(); rounds >= int64(long.rounds) {
		t.Errorf("the job was over before: %d rounds", rounds)
	}
	if err := os.WriteFile(hurry, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if <-l.over; l.err != nil {
		t.Fatal(l.err)
	}
	now := serial(long)
	if want := now.show(long.dims); l.result != want {
		t.Errorf("result:\n%swant:\n%s", l.result, want)
	}
}
