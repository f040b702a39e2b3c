package detect_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/detect"

	"golang.org/x/sys/unix"
)

func TestPidfdTellsOfDeath(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read line") // its input never comes
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := detect.OpenPidfd(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if detect.ExitedPidfd(fd) {
		t.Error("exited, and alive")
	}
	if err := detect.KillPidfd(fd, 0); err != nil {
		t.Errorf("alive: %v", err)
	}
	if err := detect.KillPidfd(fd, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(10 * time.Second); !detect.ExitedPidfd(fd); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("killed, and has not exited") // nobody has waited for it yet
		}
	}
	_ = cmd.Wait()
	if !detect.ExitedPidfd(fd) {
		t.Error("no longer exited")
	}
	if err := detect.KillPidfd(fd, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("dead: %v", err)
	}
}

func TestNoPidfdIsNoProof(t *testing.T) {
	if detect.ExitedPidfd(-1) || detect.ExitedPidfd(1<<30) {
		t.Error("a descriptor that is none tells of death")
	}
	if fd, err := detect.OpenPidfd(1 << 30); err == nil || fd != -1 {
		t.Error(fd, err)
	}
	if err := detect.KillPidfd(-1, syscall.SIGKILL); err == nil {
		t.Error("killed nobody")
	}
}

func TestPeerPidfd(t *testing.T) {
	for network, at := range map[string]string{"unix": t.TempDir() + "/s", "tcp": "127.0.0.1:0"} {
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		raw, err := conn.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		fd, pid, err := detect.PeerPidfd(raw)
		if network == "tcp" {
			if err == nil || fd != -1 {
				t.Errorf("over TCP: %d, %d, %v", fd, pid, err)
			}
			continue
		}
		if err != nil || pid != os.Getpid() || detect.ExitedPidfd(fd) {
			t.Errorf("over a Unix socket: %d, %d, %v", fd, pid, err)
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("it is left open on exec: %x, %v", flags, err)
		}
		_ = unix.Close(fd)
		_ = conn.Close()
		if fd, _, err := detect.PeerPidfd(raw); err == nil || fd != -1 {
			t.Errorf("of a closed connection: %d, %v", fd, err)
		}
	}
}
