//go:build linux

package calls_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coppice-go/coppice/bench/calls"
)

// part is the variable that makes this binary the traced program; its value selects the part.
const part = "CALLS_TEST_PART"

func TestMain(m *testing.M) {
	switch os.Getenv(part) {
	case "parent":
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), part+"=child")
				if cmd.Run() != nil {
					os.Exit(3)
				}
			})
		}
		both.Wait()
		os.Exit(0)
	case "child":
		child()
		os.Exit(0)
	case "fails":
		os.Stderr.WriteString("what is wrong\n")
		os.Exit(4)
	default:
		os.Exit(m.Run())
	}
}

// child sends 100 messages of 3 bytes in a first section and 7 in a second; and some outside.
func child() {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		os.Exit(5)
	}
	room := make([]byte, 8)
	send := func(n int) {
		for range n {
			_ = syscall.Sendto(ends[0], []byte("abc"), 0, nil)
			_, _, _ = syscall.Recvfrom(ends[1], room, 0)
		}
	}
	mark := func() { _ = syscall.Getrusage(syscall.RUSAGE_SELF, new(syscall.Rusage)) }
	send(5)
	mark()
	send(100)
	mark()
	send(5)
	mark()
	send(7)
	mark()
	send(5)
}

func TestSectionsOfAllProcessesAreCounted(t *testing.T) {
	t.Setenv(part, "parent")
	got, err := calls.Run(t.Context(), []string{os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Fatalf("%d sections, want 2", len(got))
	}
	for i, n := range []int{100, 7} {
		s := got[i]
		if s.Processes != 2 || s.Sends != 2*n || s.Bytes != 6*n || s.Library < 4*n || s.Library > 4*n+20 || s.All < s.Library {
			t.Errorf("section %d: %+v, want %d sends", i, s, 2*n)
		}
	}
}

func TestFailuresAreTold(t *testing.T) {
	t.Setenv(part, "fails")
	if _, err := calls.Run(t.Context(), []string{os.Args[0]}); err == nil || !strings.Contains(err.Error(), "exit 4: what is wrong") {
		t.Error(err)
	}
	if _, err := calls.Run(t.Context(), []string{"/no/such/program"}); err == nil {
		t.Error("no such program, and no error")
	}
}

func TestTheEndOfAContextEndsTheCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := calls.Run(ctx, []string{"sleep", "60"}); err == nil {
		t.Error("it went on")
	}
}

// Run neither waits for children that the caller started otherwise nor takes them from it.
func TestOtherChildrenAreLeftAlone(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	other := exec.Command("sh", "-c", "read line")
	if _, err := other.StdinPipe(); err != nil { // it waits for a line
		t.Fatal(err)
	}
	if err := other.Start(); err != nil { // of this thread, which is the tracer
		t.Fatal(err)
	}
	t.Setenv(part, "parent")
	if got, err := calls.Run(t.Context(), []string{os.Args[0]}); err != nil || len(got) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	_ = other.Process.Kill()
	if err := other.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
}
