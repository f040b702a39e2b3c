//go:build unix

package control_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/wire"
)

// open opens a connection with the control socket.
func open(t *testing.T, s *control.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(s.Place(0, 1).Dir, "control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestStrangersAreTurnedAway(t *testing.T) {
	descriptors(t)
	s := serve(t, control.ServerConfig{Size: 2})
	_, notes := crew(t, s, 2)
	for name, says := range map[string]string{
		"nothing":  "",
		"garbage":  strings.Repeat("\xff", 10_000),
		"http":     "GET / HTTP/1.1\r\nHost: example\r\n\r\n" + strings.Repeat(" ", 100),
		"greeting": "coppice\x00\x01\x00\x00\x00" + strings.Repeat("\x00", 10_000),
	} {
		conn := open(t, s)
		io.WriteString(conn, says) // it may be closed before all is written
		conn.(*net.UnixConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(patience))
		told, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) || len(told) > 44 {
			t.Errorf("%s: was told %d bytes, %v", name, len(told), err)
		}
	}
	if notes[0].has("died") {
		t.Errorf("%q", notes[0].notes)
	}
}

// TestWhoOnlyLooksIsNotTurnedAway: coppice members opens a connection with every coordinator, to see who listens, and
// observes one job. The log has neither; it has strangers.
func TestWhoOnlyLooksIsNotTurnedAway(t *testing.T) {
	var mu sync.Mutex
	var log strings.Builder
	s := serve(t, control.ServerConfig{Size: 1, Logger: slog.New(slog.NewTextHandler(&locked{&mu, &log}, nil))})
	visit := func(says string) {
		conn := open(t, s)
		io.WriteString(conn, says)
		conn.(*net.UnixConn).CloseWrite()
		io.Copy(io.Discard, conn) // until the coordinator has done with it
	}
	visit("") // as control.Runs does
	if _, err := control.Describe(t.Context(), s.Place(0, 1).Dir); err != nil {
		t.Fatal(err)
	}
	visit(strings.Repeat("\xff", 100))
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(log.String(), "turned away"); n != 1 {
		t.Errorf("%d are turned away, want the stranger:\n%s", n, log.String())
	}
}

// locked is a writer that several goroutines use.
type locked struct {
	mu *sync.Mutex
	to io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// TestIdlersAreBounded: thousands of connections that say nothing cost a bounded
// number of descriptors, and those who know the key still get in.
func TestIdlersAreBounded(t *testing.T) {
	descriptors(t)
	s := serve(t, control.ServerConfig{Size: 2})
	const idlers = 3000
	conns := make([]net.Conn, idlers)
	for i := range conns {
		conns[i] = open(t, s)
	}
	began := time.Now()
	c, notes := join(t, s.Place(0, 1))
	c.Announce(nil, "here")
	t.Logf("joined %v after %d idlers", time.Since(began), idlers)
	for until := began.Add(4 * time.Second); ; time.Sleep(time.Millisecond) { // a handshake may take 5 s
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("counts open descriptors, which needs /proc: runs on Linux:", err)
		}
		if len(open) < idlers+2*300+100 { // ours, and a connection and a pidfd for each in the lobby
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d descriptors", len(open))
		}
	}
	for _, conn := range conns {
		conn.Close()
	}
	c2, _ := join(t, s.Place(1, 1))
	c2.Announce(nil, "here")
	notes.awaitPeers(t, 2)
}

// TestBadWordsEndAConnectionOnly: one who knows the key and talks nonsense loses
// its connection, and the coordinator goes on.
func TestBadWordsEndAConnectionOnly(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2})
	_, notes := join(t, s.Place(0, 1))
	for name, says := range map[string]string{
		"no JSON":        "hello\n",
		"too long":       strings.Repeat("x", 2<<20),
		"too long event": `{"type":"event","event":{"type":"x","y":"` + strings.Repeat("x", 1<<20) + `"}}` + "\n",
	} {
		conn := open(t, s)
		p := s.Place(1, 1)
		if _, err := wire.Connect(conn, p.Key, nil, wire.Identity{Job: p.Job, From: 1, To: ^uint32(0), Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, `{"type":"nonsense"}`+"\n"+`{"type":"event"}`+"\n"+`{"type":"suspect","rank":-3}`+"\n")
		io.WriteString(conn, says)
		conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays", name)
		}
		conn.Close()
	}
	if notes.has("died") || notes.has("lost") {
		t.Errorf("%q", notes.notes)
	}
	c, _ := join(t, s.Place(1, 1))
	c.Announce([]string{"1.sock"}, "here")
	notes.awaitPeers(t, 1)
}

// TestFullLobbyLeavesNewGuestsAlone: the one who is there longest has to go, but not
// before it had time for the handshake; and networks do not crowd each other out.
func TestFullLobbyLeavesNewGuestsAlone(t *testing.T) {
	guests := func(n int) (conns []net.Conn) {
		for range n {
			conn, other := net.Pipe()
			t.Cleanup(func() { conn.Close(); other.Close() })
			conns = append(conns, conn)
		}
		return conns
	}
	open := func(conn net.Conn) bool { return conn.SetDeadline(time.Time{}) == nil }
	for least, stays := range map[time.Duration]int{time.Hour: 0, 0: 2} { // the first guest, or the third
		enter := control.NewLobby(2, least)
		conns := guests(3)
		for _, conn := range conns {
			enter(conn)
		}
		if !open(conns[1]) || !open(conns[stays]) || open(conns[2-stays]) {
			t.Errorf("at least %v: open: %v, %v, %v", least, open(conns[0]), open(conns[1]), open(conns[2]))
		}
		elsewhere, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer elsewhere.Close()
		enter(elsewhere.(net.Conn))
		if !open(elsewhere.(net.Conn)) || !open(conns[1]) {
			t.Errorf("at least %v: one network crowds out the other", least)
		}
	}
}

// TestObserverComesAgain: whoever was shown out of a crowd.
func TestObserverComesAgain(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 1, Grow: 1, Join: func(control.JoinRequest) ([]control.Joiner, error) { return nil, nil }})
	door := filepath.Join(t.TempDir(), "door") // that of the job, where the first ones are shown out
	if err := os.Mkdir(door, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(door, "key"), s.Place(0, 1).Key, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(door, "control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for i := 0; ; i++ {
			in, err := l.Accept()
			if err != nil {
				return
			}
			if i < 3 {
				in.Close()
				continue
			}
			out, err := net.Dial("unix", filepath.Join(s.Place(0, 1).Dir, "control.sock"))
			if err != nil {
				in.Close()
				continue
			}
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
	if _, err := control.RequestJoin(t.Context(), door, control.JoinRequest{Count: 1}); err != nil {
		t.Error(err)
	}
}
