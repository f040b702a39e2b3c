package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-go/coppice/internal/control"
)

// terminal makes one: what is written to its screen comes out of the other end.
func terminal(t *testing.T) (screen, other *os.File) {
	t.Helper()
	other, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("needs a terminal: runs where /dev/ptmx and /dev/pts are mounted:", err)
	}
	t.Cleanup(func() { other.Close() })
	fd := int(other.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip("needs a terminal: runs where /dev/ptmx and /dev/pts are mounted:", err)
	}
	return screen, other
}

func TestMembersWatchRedrawsOnATerminal(t *testing.T) {
	jobs(t)
	t.Setenv("TERM", "xterm")
	s := coordinate(t, control.ServerConfig{Size: 2})
	screen, other := terminal(t)
	done := make(chan error, 1)
	go func() {
		done <- begin(t, screen, "members", "--watch")
		screen.Close()
	}()
	shown := &shown{}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := other.Read(buf)
			shown.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	shown.await(t, "absent")
	c := enter(t, s, s.Place(1, 1))
	shown.await(t, "1 joined: pid")
	shown.await(t, "1 present on")
	c.Emit(opened(1, []int{1, 1}, control.Identity{1, 1}))
	shown.await(t, "view 1: 1 member")
	shown.await(t, "0 given up") // since it is not in that view
	s.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	shown.mu.Lock()
	defer shown.mu.Unlock()
	drawn := strings.Split(shown.b.String(), "\x1b[H\x1b[2J")
	if last := drawn[len(drawn)-1]; len(drawn) < 4 || !strings.Contains(last, "view 1, 1 process") || !strings.Contains(last, "1 joined: pid") || !strings.Contains(last, "0-1") {
		t.Errorf("drawn %d times, at last %q", len(drawn)-1, last)
	}
}
