//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/test/port"
)

// TestMain runs the program itself in the processes that tests start.
func TestMain(m *testing.M) {
	if os.Getenv("COPPICE_RANK") != "" {
		main()
		os.Exit(0)
	}
	extent.SideBySide(6) // their jobs mostly wait
	os.Exit(m.Run())
}

// output collects what all processes write.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) await(t *testing.T, text string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		o.mu.Lock()
		said := o.b.String()
		o.mu.Unlock()
		if strings.Contains(said, text) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("no %q in %s", text, said)
		}
	}
}

// job is a job of processes started by hand.
type job struct {
	t       *testing.T
	size    int
	args    []string
	env     []string
	address string
	output
	all []*exec.Cmd
}

// startJob starts a job of size processes.
func startJob(t *testing.T, size int, env []string, args ...string) *job {
	t.Helper()
	j := &job{t: t, size: size, args: args, env: env, address: port.Free(t)}
	for rank := range size {
		j.all = append(j.all, j.start(rank))
	}
	return j
}

// start starts a process.
func (j *job) start(rank int) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		j.t.Fatal(err)
	}
	cmd := exec.Command(self, j.args...)
	cmd.Env = append(os.Environ(), fmt.Sprint("COPPICE_RANK=", rank), fmt.Sprint("COPPICE_SIZE=", j.size),
		"COPPICE_COORDINATOR="+j.address, "COPPICE_KEY=a key of this test "+j.address)
	cmd.Env = append(cmd.Env, j.env...)
	cmd.Stdout, cmd.Stderr = &j.output, &j.output
	if err := cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// terminate sends SIGTERM to some processes, all at once.
func (j *job) terminate(ranks ...int) {
	j.t.Helper()
	for _, r := range ranks {
		if err := j.all[r].Process.Signal(syscall.SIGTERM); err != nil {
			j.t.Fatal(err)
		}
	}
}

// left waits for processes that were terminated, and returns how long that took.
func (j *job) left(ranks ...int) time.Duration {
	j.t.Helper()
	begin := time.Now()
	for _, r := range ranks {
		_ = j.all[r].Wait()
		if code := j.all[r].ProcessState.ExitCode(); code != 143 {
			j.t.Errorf("process %d: %v; want exit status 143", r, j.all[r].ProcessState)
		}
	}
	return time.Since(begin)
}

// ends waits for the end of the job, and checks the results of its tasks.
func (j *job) ends(without ...int) {
	j.t.Helper()
	for rank, cmd := range j.all {
		if slices.Contains(without, rank) {
			continue
		}
		if err := cmd.Wait(); err != nil {
			j.t.Errorf("rank %d: %v", rank, err)
		}
	}
	for task := range j.size {
		j.await(j.t, fmt.Sprintf("right: %d\n", task))
	}
	if j.t.Failed() {
		j.t.Log(j.b.String())
	}
}

// twice returns the steps that tasks have run more than once.
func (j *job) twice() (all []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(j.b.String()) {
		if strings.HasPrefix(line, "runs ") {
			if seen[line] {
				all = append(all, strings.TrimSpace(line))
			}
			seen[line] = true
		}
	}
	return all
}

// TestTerminatedProcessLeaves: without a launcher, SIGTERM ends one process but not its job. The others
// go on at once; the process is started again, and takes part.
func TestTerminatedProcessLeaves(t *testing.T) {
	t.Parallel()
	j := startJob(t, 4, nil, "100")
	j.await(t, "step 20\n")
	j.terminate(2)
	j.left(2)
	j.all[2] = j.start(2)
	j.ends()
}

// A process that gets SIGTERM at any moment of its start leaves as well: its job goes on without it.
func TestTerminatedWhileItStarts(t *testing.T) {
	t.Parallel()
	for delay := range 10 {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			t.Parallel()
			j := startJob(t, 3, nil, "3")
			time.Sleep(time.Duration(delay) * 3 * time.Millisecond)
			j.terminate(1)
			_ = j.all[1].Wait()
			switch state := j.all[1].ProcessState; {
			case state.ExitCode() == 143 || state.Success():
			case state.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM: // it had not asked for the signal
			default:
				t.Errorf("process 1: %v", state)
			}
			if !j.all[1].ProcessState.Success() { // it may have had no time to join
				j.all[1] = j.start(1)
			}
			j.ends(1)
		})
	}
}

// SIGTERM ends a process at once while it looks for the coordinator.
func TestTerminatedWhileItJoins(t *testing.T) {
	t.Parallel()
	j := &job{t: t, size: 2, args: []string{"3"}, address: port.Free(t)}
	l, err := net.Listen("tcp", j.address)
	if err != nil {
		t.Fatal(err)
	}
	j.all = []*exec.Cmd{nil, j.start(1)}
	conn, err := l.Accept() // now it looks for the coordinator, which no process is
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	l.Close()
	j.terminate(1)
	if took := j.left(1); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	j.await(t, "terminated before it had joined its job\n")
}

// Processes are terminated at random, one or several at once, and started again: no task runs a step
// twice.
func TestTerminatedProcessesHandOver(t *testing.T) {
	t.Parallel()
	const size, steps = 5, 400
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	j := startJob(t, size, nil, strconv.Itoa(steps), "20ms")
	var longest time.Duration
	for at := 20; at < steps-150; at += 40 {
		j.await(t, fmt.Sprintf("step %d\n", at+rng.IntN(10)))
		some := rng.Perm(size - 1)[:1+rng.IntN(3)] // at the only seed is process 0, which cannot be started again
		for i := range some {
			some[i]++
		}
		j.terminate(some...)
		longest = max(longest, j.left(some...))
		for _, r := range some {
			j.all[r] = j.start(r)
		}
	}
	j.ends()
	if twice := j.twice(); len(twice) > 0 {
		t.Errorf("seed %d: %d steps have been run twice: %v", seed, len(twice), twice)
	}
	if longest > 10*time.Second {
		t.Errorf("it took %v to leave", longest)
	}
	t.Logf("it took %v to leave, at most", longest)
}

// The test terminates the process that has the coordinator, and then, time after time, the one that has
// it next.
func TestProcessWithTheCoordinatorHandsOver(t *testing.T) {
	t.Parallel()
	j := startJob(t, 5, nil, "200", "20ms")
	j.await(t, "step 10\n")
	j.terminate(0) // at the only seed: it cannot be started again
	j.left(0)
	for i, at := range []int{50, 90, 130} {
		j.await(t, fmt.Sprintf("step %d\n", at))
		r := 1 + i
		j.terminate(r)
		j.left(r)
		j.all[r] = j.start(r)
	}
	j.ends(0)
	if twice := j.twice(); len(twice) > 0 {
		t.Errorf("%d steps have been run twice: %v", len(twice), twice)
	}
}

// The owner of a task and the two others that keep what it saves are terminated at the same time:
// nothing is lost, and nothing runs twice.
func TestOwnersAndHoldersHandOverAtOnce(t *testing.T) {
	t.Parallel()
	for first := range 3 {
		j := startJob(t, 5, nil, "60", "20ms")
		j.await(t, "step 15\n")
		some := []int{first, first + 1, first + 2}
		j.terminate(some...)
		took := j.left(some...)
		j.ends(some...)
		if twice := j.twice(); len(twice) > 0 || strings.Contains(j.b.String(), "lost") {
			t.Errorf("%v are terminated: %d steps have been run twice: %v\n%s", some, len(twice), twice, j.b.String())
		}
		t.Logf("%v have left after %v", some, took)
	}
}

// If all processes are terminated, none waits for another, and nothing is left of the job.
func TestAllAreTerminated(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "steps")
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	j := startJob(t, 4, []string{"COPPICE_JOBS_DIR=" + dir}, "1000", "1s") // the next Save is a second away
	j.await(t, "step 1\n")
	j.terminate(0, 1, 2, 3)
	if took := j.left(0, 1, 2, 3); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// If no Save comes within the grace, or a second signal arrives, a process leaves all the same, and its
// tasks are run again from the last Save.
func TestTerminatedProcessDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, grace string
		again       bool
	}{{"no Save", "300ms", false}, {"a second signal", "1m", true}, {"no grace", "0s", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := startJob(t, 3, []string{"COPPICE_GRACE=" + c.grace}, "3", "2s")
			j.await(t, "runs 1 1\n")
			time.Sleep(200 * time.Millisecond)
			begin := time.Now()
			j.terminate(1)
			if c.again {
				time.Sleep(100 * time.Millisecond)
				j.terminate(1)
			}
			if j.left(1); time.Since(begin) > 1500*time.Millisecond {
				t.Errorf("it took %v", time.Since(begin))
			}
			j.ends(1)
			if !slices.Contains(j.twice(), "runs 1 1") {
				t.Error("task 1 was not run again")
			}
		})
	}
}

func TestBadGraceIsRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"soon", "-1s", "20"} {
		j := startJob(t, 1, []string{"COPPICE_GRACE=" + bad}, "1")
		_ = j.all[0].Wait()
		want := fmt.Sprintf("coppice: COPPICE_GRACE=%q; allowed: a time such as 20s, or 0s to leave at once\n", bad)
		if got := j.b.String(); got != want || j.all[0].ProcessState.ExitCode() != 1 {
			t.Errorf("%q, exit %d; want %q", got, j.all[0].ProcessState.ExitCode(), want)
		}
	}
}
