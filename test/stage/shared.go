package stage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/posix"
)

// Sampled returns the value of the variable or, if it is unset, usual.
func Sampled(variable string, usual int) int {
	if n := os.Getenv(variable); n != "" {
		return Number(n)
	}
	return usual
}

// Drawn returns a seed: always the same, unless the variable asks for many jobs; then a new one each
// time.
func Drawn(variable string) uint64 {
	if os.Getenv(variable) == "" {
		return 1
	}
	return rand.Uint64()
}

var ErrEnough = errors.New("enough")

// Launched starts the scene under a launcher in a process of its own, which a test can kill.
func (s Scene) Launched(t testing.TB, flags ...string) (*Stage, *exec.Cmd) {
	t.Helper()
	args := append([]string{"run", "-n", fmt.Sprint(s.N), "--no-prefix", "--timeout", PatienceTime.String()}, flags...)
	return s.Started(t, exec.Command(command(t), append(append(args, "--"), s.program(t)...)...), nil)
}

// program returns the program that a launcher starts, with its arguments.
func (s Scene) program(t testing.TB) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if s.Wrap {
		return []string{"sh", "-c", self + "; true"}
	}
	return []string{self}
}

// Started starts a command that runs the scene.
func (s Scene) Started(t testing.TB, cmd *exec.Cmd, env []string) (*Stage, *exec.Cmd) {
	t.Helper()
	g := &Stage{N: s.N}
	trace, check := Traced(t.TempDir())
	cmd.Env = slices.Concat(os.Environ(), s.Env(), []string{trace}, env)
	cmd.Stdout, cmd.Stderr = &g.Script, &g.Err
	cmd.WaitDelay = PatienceTime
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for _, l := range g.Of("ready") {
			if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", l.Pid)); err == nil && strings.Contains(string(command), os.Args[0]) {
				_ = posix.Kill(l.Pid, syscall.SIGKILL)
			}
		}
		if err := check(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%v: told %v\nstandard error: %.5000s", s.Play, g.Lines, g.Err.String())
		}
	})
	return g, cmd
}

// commandSuffix makes the path of the command from the path of the tests' directory.
const commandSuffix = ".coppice"

// command builds the command coppice, once.
func command(t testing.TB) string {
	t.Helper()
	path := os.Getenv("COPPICE_JOBS_DIR") + commandSuffix
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if out, err := exec.Command("go", "build", "-o", path, "github.com/coppice-go/coppice/cmd/coppice").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// Alive reports whether a process runs.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(stat), ") ")
	return ok && !strings.HasPrefix(rest, "Z")
}

// Patience bounds tests that would otherwise hang.
func Patience(t testing.TB) context.Context {
	t.Helper()
	return PatienceOf(t, PatienceTime)
}

func PatienceOf(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), d, errors.New("the test hangs"))
	t.Cleanup(cancel)
	return ctx
}

// Odd is the task that behaves differently from the others.
const Odd = 2

var errOdd = errors.New("odd")

func Fail(context.Context, *coppice.Task) error          { return errOdd }
func Barrier(ctx context.Context, t *coppice.Task) error { return coppice.Barrier(ctx, t) }

func Fill[E any](n int, f func(i int) E) []E {
	s := make([]E, n)
	for i := range s {
		s[i] = f(i)
	}
	return s
}

// Sketch describes a view in short.
func Sketch(v coppice.View) string {
	ids := make([]string, len(v.Processes))
	for i, p := range v.Processes {
		ids[i] = fmt.Sprint(p.ID)
		if p.Incarnation > 1 {
			ids[i] += fmt.Sprint(".", p.Incarnation)
		}
	}
	return strings.Join(ids, " ")
}

// List describes a view of processes that were there from the start.
func List(ids []int) string { return strings.Trim(fmt.Sprint(ids), "[]") }
