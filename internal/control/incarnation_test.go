//go:build unix

package control_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/test/port"
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
	if w.Place.Incarnation != 2 || !w.Joins {
		t.Errorf("after a broken connection: incarnation %d, joins: %v", w.Place.Incarnation, w.Joins)
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
	t.Parallel()
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
	t.Parallel()
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

// TestHeirLetsInWhoFollowsOneThatIsGone: a life that came after the first view, and that a view has removed since, keeps nobody out.
func TestHeirLetsInWhoFollowsOneThatIsGone(t *testing.T) {
	known := control.Peer{Rank: 1, Incarnation: 4, Addresses: []string{"x"}, Host: "there"}
	view := &control.View{Number: 8, Members: []control.Identity{{0, 1}, {2, 1}}, Gone: []control.Identity{{1, 4}}}
	s := serve(t, control.ServerConfig{Size: 3, TCP: "127.0.0.1:0"}.Inherits(known).InView(view))
	if _, w := comes(t, uncounted(t, s)); w.Place.Incarnation < 5 || !w.Joins {
		t.Errorf("incarnation %d, joins: %v", w.Place.Incarnation, w.Joins)
	}
}

// TestHeirKnowsTheViewThatIsReported: a report does not say who is gone, and is that of the same view all the same.
func TestHeirKnowsTheViewThatIsReported(t *testing.T) {
	members := []control.Identity{{0, 1}, {1, 1}}
	known := &control.View{Number: 8, Members: members, Owners: []int{0, 1, 0}, Since: []uint64{1, 1, 8}, Gone: []control.Identity{{2, 1}}}
	s := serve(t, control.ServerConfig{Size: 3, TCP: "127.0.0.1:0"}.Inherits(control.Peer{Rank: 1, Incarnation: 1, Addresses: []string{"x"}, Host: "there"}).InView(known))
	c, _ := join(t, s.Place(0, 1))
	c.Emit(control.Event{Type: control.EventView, Attrs: map[string]any{
		"number": 8, "members": members, "owners": known.Owners, "since": known.Since, "opened": true,
	}})
	c.Emit(control.Event{Type: "tick"})
	for e, err := range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Type == control.EventView:
			t.Errorf("it is news: %v", e.Attrs)
		case e.Type == "tick":
			return
		}
	}
}

// TestAnotherSizeIsRefused: a process with another COPPICE_SIZE ends at once, and its error names both sizes.
func TestAnotherSizeIsRefused(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3, TCP: "127.0.0.1:0"})
	for _, size := range []int{2, 4} {
		p := uncounted(t, s)
		p.Rank, p.Size = size-1, size
		began := time.Now()
		_, _, err := control.Join(t.Context(), p, newRecorder(), nil)
		want := fmt.Sprintf("the job has 3 processes, and here it is COPPICE_SIZE=%d; allowed: the same in all processes; if another job with the same key runs at %s, set other ports in COPPICE_COORDINATOR, or wait until it has ended", size, p.Coordinator)
		if err == nil || !strings.Contains(err.Error(), want) || time.Since(began) > 10*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	}
	if state := s.Status()[1].State; state != control.Absent {
		t.Errorf("the coordinator has taken one in: %v", state)
	}
	comes(t, uncounted(t, s)) // the rank is still free
}

// TestAnotherJobAtTheSeeds: two jobs of one size with the same key meet, on a host of a seed or at one; the second says where, and what to do.
func TestAnotherJobAtTheSeeds(t *testing.T) {
	t.Parallel() // it waits
	s := serve(t, control.ServerConfig{Size: 3, TCP: "127.0.0.1:0"})
	comes(t, uncounted(t, s))
	there := uncounted(t, s)
	seed := there.Coordinator
	here := there
	here.Dir, here.Seeds = s.Place(1, 1).Dir, []string{seed, port.Free(t)}
	here.Coordinator = strings.Join(here.Seeds, ",")
	for _, p := range []control.Place{here, there} {
		p.JoinTimeout = 200 * time.Millisecond
		_, _, err := control.Join(t.Context(), p, newRecorder(), nil)
		want := `^join as rank 1: refused: connected twice at ` + regexp.QuoteMeta(seed) + `, for [0-9.m]+s: a process of rank 1 runs already, or another job with the same key runs there: set other ports in COPPICE_COORDINATOR, or wait until it has ended$`
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// TestNumber1IsNotGivenAfterAViewHasRemovedIt: who comes then joins.
func TestNumber1IsNotGivenAfterAViewHasRemovedIt(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3, TCP: "127.0.0.1:0", Silence: 30 * time.Second})
	c, _ := join(t, s.Place(0, 1))
	c.Emit(control.Event{Type: control.EventView, Attrs: map[string]any{"number": 2, "members": []control.Identity{{0, 1}, {2, 1}}, "opened": true}})
	for s.View() == nil {
		time.Sleep(time.Millisecond)
	}
	if _, w := comes(t, uncounted(t, s)); w.Place.Incarnation != 2 || !w.Joins {
		t.Errorf("incarnation %d, joins: %v", w.Place.Incarnation, w.Joins)
	}
}

// TestHeirThatNobodyIsLeftForEndsTheJob: of the death of its own earlier life a process has not heard.
func TestHeirThatNobodyIsLeftForEndsTheJob(t *testing.T) {
	self := control.Peer{Rank: 1, Incarnation: 3, Addresses: []string{"x"}, Host: "here"}
	s := serve(t, control.ServerConfig{Size: 2}.Inherits(self).Dead(0))
	c, notes := join(t, s.Place(1, 3))
	c.Returned(1, "", true)
	notes.expect(t, "finished")
}
