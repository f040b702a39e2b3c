//go:build unix

package control_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// uncounted is the place, on another host, of a process of rank 1 whose lives nobody counts.
func uncounted(t *testing.T, s *control.Server) control.Place {
	t.Helper()
	p := s.Place(1, 1)
	p.Coordinator, p.Dir, p.Incarnation, p.How = control.TCPAddress(s), elsewhere(t), 0, control.ManualHow
	return p
}

// comes has a process join.
func comes(t *testing.T, p control.Place) (*control.Client, control.Welcome) {
	t.Helper()
	c, w, err := control.Join(t.Context(), p, newRecorder(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, w
}

// awaitConnected waits until rank 1 has joined and is connected, or is not.
func awaitConnected(t *testing.T, s *control.Server, want bool) {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		st := s.Status()[1]
		if st.State != control.Absent && st.Connected == want {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("connected: %v; want %v", st.Connected, want)
		}
	}
}

// TestProcessComesAgainAsTheNextIncarnation: with the same variables, whether its end was said, or only its connection broke.
func TestProcessComesAgainAsTheNextIncarnation(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0"})
	_, notes := join(t, s.Place(0, 1))
	p := uncounted(t, s)
	conn, err := control.ShakeAs(t.Context(), p.Coordinator, p, 11)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close() // killed, where no kernel tells
	awaitConnected(t, s, false)
	c, w := comes(t, p)
	if w.Place.Incarnation != 2 || !w.Joins || len(w.Before) != 1 {
		t.Errorf("after a broken connection: incarnation %d, joins: %v, before: %v", w.Place.Incarnation, w.Joins, w.Before)
	}
	notes.expect(t, "died 1.1 false another process has come in its place")
	c.Close()
	notes.expect(t, "died 1.2 true left before the end")
	if _, w = comes(t, p); w.Place.Incarnation != 3 || !w.Joins {
		t.Errorf("after it has left: incarnation %d, joins: %v", w.Place.Incarnation, w.Joins)
	}
}

// TestProcessComesBackAsItself: a broken connection is no end, whoever counts.
func TestProcessComesBackAsItself(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0"})
	_, notes := join(t, s.Place(0, 1))
	c, w := comes(t, uncounted(t, s))
	if w.Place.Incarnation != 1 || w.Joins {
		t.Errorf("incarnation %d, joins: %v", w.Place.Incarnation, w.Joins)
	}
	for range 3 {
		c.Break()
		awaitConnected(t, s, true)
	}
	if st := s.Status()[1]; st.Incarnation != 1 || notes.has("died") {
		t.Errorf("%+v, %q", st, notes.notes)
	}
}

// TestProcessInThePlaceOfALiveOneWaits: as long as the connection of the first is there, nobody else is let in.
func TestProcessInThePlaceOfALiveOneWaits(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0"})
	_, notes := join(t, s.Place(0, 1))
	first, _ := comes(t, uncounted(t, s))
	p := uncounted(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := control.Join(ctx, p, newRecorder(), nil); err == nil || !strings.Contains(err.Error(), "connected twice") {
		t.Fatalf("%v; want: connected twice", err)
	}
	if notes.has("died") {
		t.Fatalf("%q", notes.notes)
	}
	came := make(chan control.Welcome, 1)
	go func() {
		_, w := comes(t, p)
		came <- w
	}()
	time.Sleep(50 * time.Millisecond)
	first.Close()
	if w := <-came; w.Place.Incarnation != 2 {
		t.Errorf("incarnation %d", w.Place.Incarnation)
	}
}

// TestAnotherProcessIsNotTakenForTheOneThatJoined: also if its place names the same incarnation, and the connection of the
// first is broken.
func TestAnotherProcessIsNotTakenForTheOneThatJoined(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0"})
	p := uncounted(t, s)
	p.Incarnation = 1
	conn, err := control.ShakeAs(t.Context(), p.Coordinator, p, 11)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	awaitConnected(t, s, false)
	if _, err := control.ShakeAs(t.Context(), p.Coordinator, p, 12); err == nil || !strings.Contains(err.Error(), "excluded") {
		t.Errorf("%v; want: excluded", err)
	}
	if conn, err := control.ShakeAs(t.Context(), p.Coordinator, p, 11); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
}

// TestHeirGivesNumbersThatNobodyHas: the coordinator before may have given the next ones, and told nobody.
func TestHeirGivesNumbersThatNobodyHas(t *testing.T) {
	known := control.Peer{Rank: 1, Incarnation: 4, Addresses: []string{"x"}, Host: "there"}
	seen := map[uint64]bool{}
	for range 20 {
		s := serve(t, control.ServerConfig{Size: 3, TCP: "127.0.0.1:0"}.Inherits(known))
		p := uncounted(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, _, err := control.Join(ctx, p, newRecorder(), nil); err == nil {
			t.Fatal("the one that was known before may be alive, and yet another one is let in")
		}
		cancel()
		p.Rank = 2 // of which nothing is known
		c, w := comes(t, p)
		first := w.Place.Incarnation
		if first < 2 || !w.Joins {
			t.Errorf("incarnation %d, joins: %v", first, w.Joins)
		}
		seen[first] = true
		c.Close()
		if _, w := comes(t, p); w.Place.Incarnation != first+1 {
			t.Errorf("incarnation %d after %d", w.Place.Incarnation, first)
		}
	}
	if len(seen) < 10 {
		t.Errorf("20 coordinators have given %v", seen)
	}
}
