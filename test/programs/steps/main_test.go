//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain is the program itself in the processes that tests start.
func TestMain(m *testing.M) {
	if os.Getenv("COPPICE_RANK") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// output is what processes write, all of them.
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

// TestTerminatedProcessLeaves: without a launcher, SIGTERM ends one process, and not its job. The others go on at once; the
// process is started again, and takes part.
func TestTerminatedProcessLeaves(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	const size = 4
	var out output
	start := func(rank int) *exec.Cmd {
		cmd := exec.Command(self, "100")
		cmd.Env = append(os.Environ(), fmt.Sprint("COPPICE_RANK=", rank), fmt.Sprint("COPPICE_SIZE=", size),
			"COPPICE_COORDINATOR="+address, "COPPICE_KEY=a key of this test "+address)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	var all []*exec.Cmd
	for rank := range size {
		all = append(all, start(rank))
	}
	out.await(t, "step 20\n")
	if err := all[2].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = all[2].Wait()
	if code := all[2].ProcessState.ExitCode(); code != 143 {
		t.Errorf("it exited with %d; want 143", code)
	}
	all[2] = start(2)
	for rank, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	for task := range size {
		out.await(t, fmt.Sprintf("right: %d\n", task))
	}
	if t.Failed() {
		t.Log(out.b.String())
	}
}
