package transport_test

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"

	"golang.org/x/sys/unix"
)

// What the started process is to do, in its environment.
const (
	dialVariable   = "COPPICE_TEST_DIAL"   // connect to process 1 at this path
	listenVariable = "COPPICE_TEST_LISTEN" // listen at this path as process 2
)

// TestStartedProcess is no test but a process that others start.
func TestStartedProcess(t *testing.T) {
	switch dial, listen := os.Getenv(dialVariable), os.Getenv(listenVariable); {
	case dial != "":
		c, err := start(t, 2, nil).dial(t, transport.Address{Kind: transport.Unix, Path: dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	case listen != "":
		start(t, 2, nil, transport.Place{Kind: transport.Unix, Path: listen})
	default:
		t.Skip("is a process that other tests start; there is nothing to run by itself")
	}
	time.Sleep(time.Minute) // it is killed before
}

// run starts this program again below a shell, which stays.
func run(t *testing.T, variable, value string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `"$0" "$@"; exit 0`, os.Args[0], "-test.run=^TestStartedProcess$")
	cmd.Env = append(os.Environ(), variable+"="+value)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Wait(); err != nil {
			t.Errorf("the shell died too: %v", err)
		}
	})
}

// killed kills the peer and wants its pidfd to tell so.
func killed(t *testing.T, c *transport.Conn) {
	t.Helper()
	fd := c.Pidfd()
	if fd < 0 || detect.ExitedPidfd(fd) {
		t.Fatalf("pidfd %d of a peer that lives", fd)
	}
	if err := detect.KillPidfd(fd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}})
	if !detect.ExitedPidfd(fd) {
		t.Error("dead, and not exited")
	}
}

func TestPidfdIsThatOfWhoConnected(t *testing.T) {
	leavesNothing(t)
	one := start(t, 1, nil, place(t, transport.Unix))
	run(t, dialVariable, one.Addresses()[0].Path)
	killed(t, one.accepted(t))
}

func TestPidfdIsThatOfWhoListens(t *testing.T) {
	leavesNothing(t)
	at := transport.Address{Kind: transport.Unix, Path: place(t, transport.Unix).Path}
	run(t, listenVariable, at.Path)
	one := start(t, 1, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		c, err := one.Dial(ctx, at, wire.Identity{To: 2}, 0)
		if err == nil {
			killed(t, c)
			_ = c.Close()
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
