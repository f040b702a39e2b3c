//go:build unix

package control_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/test/port"
)

// TestBrokenConnectionIsMadeAgain: nothing is lost and nothing told twice.
func TestBrokenConnectionIsMadeAgain(t *testing.T) {
	descriptors(t)
	s := serve(t, control.ServerConfig{Size: 4})
	clients, notes := crew(t, s, 4)
	s.Stop("SIGTERM")
	clients[3].Close()
	clients[1].Returned(0, "", true)
	for round := range 20 {
		for _, r := range notes[:3] {
			r.expect(t, "died 3.1 true left")
			r.expect(t, "stop SIGTERM")
		}
		clients[round%3].Break()
		if round == 10 {
			clients[0].Returned(0, "", true)
		}
	}
	notes[2].expect(t, "returned 0")
	notes[2].expect(t, "returned 1")
	clients[2].Returned(0, "", true)
	for rank, r := range notes[:3] {
		r.expect(t, "finished")
		sorted := slices.Sorted(slices.Values(r.notes))
		if len(slices.Compact(slices.Clone(sorted))) != len(sorted) || len(sorted) != 5 {
			t.Errorf("rank %d: %q", rank, sorted)
		}
	}
}

// TestOtherHosts: a process without the coordinator's directory comes by TCP,
// encrypted. Nobody there can be killed by it: silence stays a suspicion.
func TestOtherHosts(t *testing.T) {
	descriptors(t)
	address := port.Free(t)
	place := func(rank int) control.Place {
		p, err := find(map[string]string{
			"COPPICE_RANK": fmt.Sprint(rank), "COPPICE_SIZE": "3", "COPPICE_COORDINATOR": address, "COPPICE_KEY": "0123456789abcdef",
			"COPPICE_JOBS_DIR": elsewhere(t), // so each has a directory of its own, as on hosts of their own
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	clients, notes := make([]*control.Client, 3), make([]*recorder, 3)
	var wg sync.WaitGroup
	for rank := 1; rank < 3; rank++ { // they come first
		wg.Go(func() { clients[rank], notes[rank] = join(t, place(rank)) })
	}
	time.Sleep(10 * time.Millisecond)
	s, p, err := control.Host(place(0), control.ServerConfig{Silence: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	clients[0], notes[0] = join(t, p)
	wg.Wait()
	for rank, c := range clients {
		c.Announce([]string{fmt.Sprint(rank)}, fmt.Sprint("host", rank))
	}
	for _, r := range notes {
		r.awaitPeers(t, 3)
	}
	time.Sleep(1500 * time.Millisecond) // beats go both ways
	clients[1].Break()
	clients[1].Returned(0, "", true)
	notes[2].expect(t, "returned 1")
	// A stranger on the port.
	stranger := place(1)
	stranger.Key, stranger.Incarnation = make([]byte, 32), 2
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, "hello")
	clients[2].Returned(0, "", true)
	clients[0].Returned(0, "", true)
	for _, r := range notes {
		r.expect(t, "finished")
		if r.has("died") || r.has("lost") {
			t.Errorf("%q", r.notes)
		}
	}
	for _, c := range clients {
		c.Close()
	}
}

// TestAgentMakesDeathCertain: what a launcher's agent on another host says of the
// process it started there is certain, before or after a suspicion.
func TestAgentMakesDeathCertain(t *testing.T) {
	t.Parallel() // it waits
	s := serve(t, control.ServerConfig{Size: 3, TCP: "127.0.0.1:0", Silence: 500 * time.Millisecond})
	address := control.TCPAddress(s)
	_, notes := join(t, s.Place(0, 1))
	for rank := 1; rank < 3; rank++ {
		s.Started(rank, 1, 1000+rank)
		conn, err := control.Shake(t.Context(), address, s.Place(rank, 1))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, `{"type":"announce","addresses":["a"],"pid":%d}`+"\n", 1000+rank)
		notes.await(t, "its announcement", func() bool { return len(notes.peers[rank].Addresses) > 0 })
		if rank == 1 {
			s.Exited(1, 1, "exited with 3", control.Will{})
			notes.expect(t, "died 1.1 true exited with 3")
			s.Exited(1, 1, "exited with 4", control.Will{}) // it can do so only once
		}
	}
	// That it is not heard here says nothing about a process on another host.
	time.Sleep(time.Second)
	if notes.has("died 2.1 false") {
		t.Errorf("%q", notes.notes)
	}
	s.Exited(2, 1, "killed by SIGKILL", control.Will{})
	notes.expect(t, "died 2.1 true killed by SIGKILL")
}

// TestABusyCoordinatorIsAskedOnce: a handshake is not broken off and begun again
// because it takes long, which would give a busy coordinator the more to do.
func TestABusyCoordinatorIsAskedOnce(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			s := serve(t, control.ServerConfig{Size: 1, TCP: "127.0.0.1:0"})
			p, between := behind(t, s, 0, network, func() { time.Sleep(50 * time.Millisecond) })
			if err := control.Connect(t.Context(), p, 10*time.Millisecond); err != nil || between.Load() != 1 {
				t.Errorf("%v after %d tries, want success at the first", err, between.Load())
			}
		})
	}
}

// TestSlowLine: a line that takes long to arrive breaks no connection, as long as something arrives; and a part of one is none.
func TestSlowLine(t *testing.T) {
	t.Parallel() // it waits
	const wait = time.Second
	here, there := net.Pipe()
	go func() {
		for range 5 {
			time.Sleep(wait / 3)
			there.Write([]byte("part "))
		}
		there.Write([]byte("\nbroken off"))
	}()
	lines := control.LinkLines(here, wait)
	if !lines.Scan() || lines.Text() != strings.Repeat("part ", 5) {
		t.Errorf("%q, %v; want 5 parts", lines.Text(), lines.Err())
	}
	if lines.Scan() || !errors.Is(lines.Err(), os.ErrDeadlineExceeded) {
		t.Errorf("%q, %v; want that the time is up", lines.Text(), lines.Err())
	}
}

// behind returns the place of a rank, from where the coordinator is reached through somebody else, and how many connections
// were made there, for each of which before is called.
func behind(t *testing.T, s *control.Server, rank int, network string, before func()) (control.Place, *atomic.Int32) {
	t.Helper()
	p := s.Place(rank, 1)
	dir := elsewhere(t)
	free, at := p.Coordinator, filepath.Join(dir, filepath.Base(p.Coordinator))
	if network == "tcp" {
		free, at = control.TCPAddress(s), "127.0.0.1:0"
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	p.Coordinator, p.Dir = l.Addr().String(), dir
	var made atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			made.Add(1)
			before()
			to, err := net.Dial(network, free)
			if err != nil {
				t.Error(err)
				return
			}
			wg.Go(func() { io.Copy(to, from); to.Close() })
			wg.Go(func() { io.Copy(from, to); from.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.Close()
		wg.Wait()
	})
	return p, &made
}

func TestHundredsOfProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 2,000 descriptors; runs without -short")
	}
	descriptors(t)
	n := extent.Of(t, 200, 500)
	s := serve(t, control.ServerConfig{Size: n, Silence: 20 * time.Second})
	began := time.Now()
	clients, notes := make([]*control.Client, n), make([]*recorder, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() {
			notes[rank] = newRecorder()
			c, _, err := control.Join(t.Context(), s.Place(rank, 1), notes[rank], nil)
			if err != nil {
				t.Error(err)
				return
			}
			clients[rank] = c
			c.Announce([]string{fmt.Sprintf("/run/user/1000/coppice-12345678/%d.sock", rank)}, "0123456789abcdef0123456789abcdef")
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d have joined after %v", n, time.Since(began))
	for _, r := range notes {
		r.awaitPeers(t, n)
	}
	t.Logf("%d know each other after %v", n, time.Since(began))
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		var threads int
		_, rest, _ := strings.Cut(string(b), "Threads:")
		// Files that are opened at the same time cost threads, too, which Go keeps; a thread for each process would be n more.
		if _, err := fmt.Sscan(rest, &threads); err != nil || threads >= n {
			t.Errorf("%d threads, %v: waiting for a process must not cost one", threads, err)
		}
	}
	began = time.Now()
	clients[n-1].Close()
	for _, r := range notes[:n-1] {
		r.expect(t, fmt.Sprintf("died %d.1 true", n-1))
	}
	t.Logf("a death is known to all after %v", time.Since(began))
	for _, c := range clients[:n-1] {
		c.Returned(0, "", true)
	}
	for _, r := range notes[:n-1] {
		r.expect(t, "finished")
	}
	t.Logf("all have returned after %v", time.Since(began))
	for _, c := range clients {
		c.Close()
	}
}

// TestCoordinatorOfThisHostIsFoundHere: also if it begins between the two tries, here and at its address; it sees only who comes here die.
func TestCoordinatorOfThisHostIsFoundHere(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0"})
	p := s.Place(1, 1)
	if here, err := control.ShakeHere(t.Context(), control.TCPAddress(s), p); err != nil || !here {
		t.Errorf("connected on this host: %v, %v", here, err)
	}
	p.Dir = t.TempDir() // of another host
	if here, err := control.ShakeHere(t.Context(), control.TCPAddress(s), p); err == nil && here {
		t.Error("connected on this host, where there is no coordinator")
	}
}

// TestWhoGoesBeforeItIsAnnouncedIsGivenUp: no other process knows of it, so none can miss it.
func TestWhoGoesBeforeItIsAnnouncedIsGivenUp(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0", JoinTimeout: 300 * time.Millisecond})
	_, notes := join(t, s.Place(0, 1))
	conn, err := control.Shake(t.Context(), control.TCPAddress(s), s.Place(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	notes.expect(t, "died 1.1 false has not announced itself")
}

// TestWhoIsStoppedBeforeItIsAnnouncedIsGivenUp: its connection stays.
func TestWhoIsStoppedBeforeItIsAnnouncedIsGivenUp(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0", JoinTimeout: 300 * time.Millisecond, Silence: 300 * time.Millisecond})
	_, notes := join(t, s.Place(0, 1))
	conn, err := control.Shake(t.Context(), control.TCPAddress(s), s.Place(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	notes.expect(t, "died 1.1 false has not announced itself")
}
