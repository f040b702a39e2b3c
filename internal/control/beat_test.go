//go:build unix

package control

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestBeatsGoOnWhenTheDirectoryWasRemoved: a process without a page beats by messages; if it stopped, it would be fenced for silence.
func TestBeatsGoOnWhenTheDirectoryWasRemoved(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	coordinator, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Close()
	c := &Client{silence: 60 * time.Millisecond, out: newMailbox[[]byte](clientRoom), paged: make(chan struct{}, 1), gone: make(chan struct{}, 1)}
	if err := c.hear(message{Type: tellKeep}); err != nil {
		t.Fatal(err)
	}
	c.closing = true // there is nothing to create again
	ended := make(chan struct{})
	defer close(ended)
	go c.write(conn, ended)
	coordinator.SetReadDeadline(time.Now().Add(10 * time.Second))
	lines := newLines(coordinator, sayMax)
	for n := range 10 {
		if m, err := readMessage(lines); err != nil || m.Type != sayBeat {
			t.Fatalf("after %d beats: %+v, %v", n, m, err)
		}
	}
}
