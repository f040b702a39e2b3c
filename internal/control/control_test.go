//go:build unix

package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/test/port"

	"go.uber.org/goleak"
)

// patience is for what must happen, but not when.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if role := os.Getenv("CONTROL_TEST_ROLE"); role != "" {
		os.Exit(play(role))
	}
	extent.SideBySide(8)
	goleak.VerifyTestMain(m)
}

// descriptors checks that a test leaves as many as it found.
func descriptors(t *testing.T) {
	t.Helper()
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("counts open descriptors, which needs /proc: runs on Linux:", err)
		}
		return len(open)
	}
	if r, w, err := os.Pipe(); err == nil { // the first one makes the runtime open its poller
		r.Close()
		w.Close()
	}
	before := count()
	t.Cleanup(func() {
		if after := count(); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

// recorder is a handler that notes what it is told.
type recorder struct {
	mu    sync.Mutex
	cond  *sync.Cond
	notes []string
	peers map[int]control.Peer
	times map[string]time.Time
	ended atomic.Uint64 // the view of the end
	known atomic.Bool   // all know of it
}

func newRecorder() *recorder {
	r := &recorder{peers: map[int]control.Peer{}, times: map[string]time.Time{}}
	r.cond = sync.NewCond(&r.mu)
	return r
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	r.notes = append(r.notes, text)
	r.times[text] = time.Now()
	r.cond.Broadcast()
}

func (r *recorder) Peers(peers []control.Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range peers {
		r.peers[p.Rank] = p
	}
	r.cond.Broadcast()
}

func (r *recorder) Died(d control.Death) {
	if len(d.Record) > 0 {
		sum := crc32.ChecksumIEEE(d.Record)
		r.note("record %d.%d %d bytes %08x", d.Rank, d.Incarnation, len(d.Record), sum)
	}
	r.note("died %d.%d %v %s", d.Rank, d.Incarnation, d.Certain, d.How)
}

func (r *recorder) Alive(rank int) { r.note("alive %d", rank) }

func (r *recorder) HeardOf(rank int, hears bool, _ time.Duration) { r.note("hears %d %v", rank, hears) }

func (r *recorder) PeersReturned(ranks []int, incarnation uint64, failure string) {
	for _, rank := range ranks {
		who := control.Identity{uint64(rank), max(incarnation, 1)}
		r.note("%s", strings.TrimSpace(fmt.Sprintf("returned %v %s", who, failure)))
	}
}

func (r *recorder) AllKnow() { r.known.Store(true) }

func (r *recorder) Finished(view uint64, why string) {
	r.ended.Store(view)
	r.note("%s", strings.TrimSpace("finished "+why))
}
func (r *recorder) Stop(reason string) { r.note("stop %s", reason) }
func (r *recorder) Lost(err error)     { r.note("lost %v", err) }

// await waits until something holds of what was noted.
func (r *recorder) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	timer := time.AfterFunc(patience, func() { r.cond.Broadcast() })
	defer timer.Stop()
	until := time.Now().Add(patience)
	r.mu.Lock()
	defer r.mu.Unlock()
	for !holds() {
		if time.Now().After(until) {
			t.Fatalf("waiting for %s; noted: %q, %d peers", what, r.notes, len(r.peers))
		}
		r.cond.Wait()
	}
}

// expect waits for a note that begins so, and returns it.
func (r *recorder) expect(t testing.TB, prefix string) (note string) {
	t.Helper()
	r.await(t, fmt.Sprintf("%q", prefix), func() bool {
		i := slices.IndexFunc(r.notes, func(n string) bool { return strings.HasPrefix(n, prefix) })
		if i >= 0 {
			note = r.notes[i]
		}
		return i >= 0
	})
	return note
}

func (r *recorder) awaitPeers(t testing.TB, n int) {
	t.Helper()
	r.await(t, fmt.Sprintf("%d peers", n), func() bool { return len(r.peers) == n })
}

// has tells whether there is a note that begins so.
func (r *recorder) has(prefix string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.notes, func(n string) bool { return strings.HasPrefix(n, prefix) })
}

// serve starts a coordinator in a directory of its own.
func serve(t testing.TB, cfg control.ServerConfig) *control.Server {
	t.Helper()
	if cfg.Dir == "" {
		dir, err := control.MakeDir(os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Dir = dir
	}
	s, err := control.Serve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if _, err := os.Stat(cfg.Dir); err == nil {
			t.Errorf("%s is still there", cfg.Dir)
		}
	})
	return s
}

// join lets a rank of this very process join.
func join(t testing.TB, p control.Place) (*control.Client, *recorder) {
	t.Helper()
	return joinLogging(t, p, io.Discard)
}

// joinLogging is join with a log.
func joinLogging(t testing.TB, p control.Place, log io.Writer) (*control.Client, *recorder) {
	t.Helper()
	r := newRecorder()
	c, _, err := control.Join(t.Context(), p, r, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, r
}

// crew lets all ranks join and announce themselves.
func crew(t *testing.T, s *control.Server, n int) ([]*control.Client, []*recorder) {
	t.Helper()
	clients, notes := make([]*control.Client, n), make([]*recorder, n)
	for rank := range n {
		clients[rank], notes[rank] = join(t, s.Place(rank, 1))
		clients[rank].Announce([]string{fmt.Sprintf("%d.sock", rank)}, "here")
	}
	for _, r := range notes {
		r.awaitPeers(t, n)
	}
	return clients, notes
}

func TestThirtyTwoProcessesMeet(t *testing.T) {
	descriptors(t)
	const n = 32
	s := serve(t, control.ServerConfig{Size: n, Settings: json.RawMessage(`{"kill":[1,2]}`)})
	began := time.Now()
	clients, notes := make([]*control.Client, n), make([]*recorder, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() {
			notes[rank] = newRecorder()
			c, w, err := control.Join(t.Context(), s.Place(rank, 1), notes[rank], nil)
			if err != nil {
				t.Error(err)
				return
			}
			if w.Size != n || w.LocalSize != n || string(w.Settings) != `{"kill":[1,2]}` || w.Silence != 3*time.Second {
				t.Errorf("welcome: %+v", w)
			}
			c.Announce([]string{fmt.Sprintf("%d.sock", rank)}, "here")
			clients[rank] = c
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, r := range notes {
		r.awaitPeers(t, n)
	}
	t.Logf("%d processes know each other after %v", n, time.Since(began))
	for rank, r := range notes {
		if p := r.peers[7]; p.Addresses[0] != "7.sock" || p.Host != "here" || p.Incarnation != 1 {
			t.Errorf("rank %d knows %+v", rank, p)
		}
	}
	for rank, c := range clients {
		failure := ""
		if rank == 3 {
			failure = "out of luck"
		}
		c.Returned(0, failure, true)
	}
	for rank, r := range notes {
		r.expect(t, "finished")
		if rank != 3 {
			r.expect(t, "returned 3 out of luck")
		}
	}
	<-s.Done()
	if st := s.Status()[3]; st.State != control.Returned || st.Failure != "out of luck" {
		t.Errorf("%+v", st)
	}
	for _, c := range clients {
		c.Close()
	}
	for rank, r := range notes {
		if r.has("died") || r.has("lost") {
			t.Errorf("rank %d: %q", rank, r.notes)
		}
	}
}

// batches counts how often a process hears of others.
type batches struct {
	*recorder
	heard atomic.Int64
}

func (b *batches) Peers(peers []control.Peer) {
	b.heard.Add(1)
	b.recorder.Peers(peers)
}

// TestProcessesThatStartHearOfEachOtherInFewBatches: each batch wakes all processes, which keeps those waiting that start.
func TestProcessesThatStartHearOfEachOtherInFewBatches(t *testing.T) {
	const n = 60
	began := time.Now()
	s := serve(t, control.ServerConfig{Size: n})
	first := &batches{recorder: newRecorder()}
	for rank := range n {
		handler := control.Handler(first)
		if rank > 0 {
			handler = newRecorder()
		}
		c, _, err := control.Join(t.Context(), s.Place(rank, 1), handler, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		c.Announce([]string{fmt.Sprintf("%d.sock", rank)}, "here")
		time.Sleep(20 * time.Millisecond)
	}
	first.awaitPeers(t, n)
	// Each waits half as long as the coordinator has run, from 5 ms to 0.5 s.
	if most := 16 + int64(2*time.Since(began).Seconds()); first.heard.Load() > most {
		t.Errorf("%d batches for %d processes in %v; want at most %d", first.heard.Load(), n, time.Since(began), most)
	}
}

func TestFinishedNeedsAll(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3})
	clients, notes := crew(t, s, 3)
	clients[0].Returned(0, "", true)
	clients[1].Returned(0, "", true)
	notes[2].expect(t, "returned 1")
	if notes[0].has("finished") {
		t.Error("finished without rank 2")
	}
	clients[2].Close() // gives up
	notes[0].expect(t, "died 2.1 true left before the end")
	notes[0].expect(t, "finished")
}

func TestLongFailureIsCut(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2})
	clients, notes := crew(t, s, 2)
	clients[0].Returned(0, strings.Repeat("é", 2<<20), true)
	if note := notes[1].expect(t, "returned 0 éé"); len(note) > 5000 || !strings.HasSuffix(note, "é…") {
		t.Errorf("%d bytes", len(note))
	}
}

func TestStopReachesThoseToComeToo(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2})
	_, first := join(t, s.Place(0, 1))
	s.Stop("SIGINT")
	_, second := join(t, s.Place(1, 1))
	first.expect(t, "stop SIGINT")
	second.expect(t, "stop SIGINT")
}

func TestClosedCoordinatorIsLost(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2})
	_, notes := crew(t, s, 2)
	s.Close()
	for _, r := range notes {
		r.expect(t, "lost the coordinator has ended")
	}
}

func TestWhoMayJoin(t *testing.T) {
	t.Parallel() // it waits
	s := serve(t, control.ServerConfig{Size: 2})
	_, notes := crew(t, s, 1+1)
	try := func(change func(*control.Place)) error {
		p := s.Place(1, 1)
		change(&p)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // for an answer; some try again until it is over
		defer cancel()
		c, _, err := control.Join(ctx, p, newRecorder(), nil)
		if err == nil {
			c.Close()
		}
		return err
	}
	var tries sync.WaitGroup
	for name, c := range map[string]struct {
		change func(*control.Place)
		want   string
	}{
		"another job":                        {func(p *control.Place) { p.Job[0] ^= 1 }, "refused: another job"},
		"another key":                        {func(p *control.Place) { p.Key = make([]byte, 32) }, "no coordinator at"},
		"too high a rank":                    {func(p *control.Place) { p.Rank = 2 }, "refused: the job has no such rank"},
		"no incarnation, while it lives":     {func(p *control.Place) { p.Incarnation = 0 }, "refused: connected twice"},
		"while the incarnation before lives": {func(p *control.Place) { p.Incarnation = 2 }, "refused: connected twice"},
	} {
		tries.Go(func() {
			if err := try(c.change); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	tries.Wait()
	if notes[0].has("died") {
		t.Errorf("%q", notes[0].notes)
	}
}

// TestWhatTheCoordinatorSaidIsTold: also if the coordinator is gone when the process gives up.
func TestWhatTheCoordinatorSaidIsTold(t *testing.T) {
	t.Parallel() // it waits
	address, turnedAway := port.Free(t), make(chan struct{}, 1)
	s := serve(t, control.ServerConfig{
		Size: 2, TCP: address, Key: []byte(strings.Repeat("k", 32)),
		Logger: slog.New(slog.NewTextHandler(writerFunc(func(line []byte) {
			if bytes.Contains(line, []byte("turned away")) {
				select {
				case turnedAway <- struct{}{}:
				default:
				}
			}
		}), nil)),
	})
	place, dir := s.Place(1, 1), t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	place.Coordinator, place.Dir, place.Key = address, dir, make([]byte, 32)
	place.How, place.JoinTimeout = control.ManualHow, 2*time.Second
	go func() {
		select {
		case <-turnedAway:
		case <-t.Context().Done():
		}
		s.Close()
	}()
	_, _, err := control.Join(t.Context(), place, newRecorder(), nil)
	if err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("%v; want what the coordinator said", err)
	}
}

// A writerFunc is called with what is written to it.
type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

func TestDeadIncarnationStaysOutAndTheNextIsIn(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2})
	clients, notes := crew(t, s, 2)
	clients[1].Close()
	notes[0].expect(t, "died 1.1 true")
	if c, _, err := control.Join(t.Context(), s.Place(1, 1), newRecorder(), nil); err == nil {
		c.Close()
		t.Error("a dead incarnation came back")
	}
	c, r := join(t, s.Place(1, 2))
	c.Announce([]string{"new.sock"}, "here")
	notes[0].await(t, "the second incarnation", func() bool { return notes[0].peers[1].Incarnation == 2 })
	r.awaitPeers(t, 2)
	c.Returned(0, "", true)
	clients[0].Returned(0, "", true)
	r.expect(t, "finished")
	if r.has("died") {
		t.Errorf("the second incarnation heard of its own death: %q", r.notes)
	}
}

func TestExitOfWhatNeverJoined(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3})
	_, notes := join(t, s.Place(0, 1))
	s.Started(1, 1, 12345)
	s.Exited(1, 1, "exited with 0", control.Will{})
	notes.expect(t, "died 1.1 true never joined: exited with 0")
	_, late := join(t, s.Place(2, 1))
	late.expect(t, "died 1.1 true never joined: exited with 0")
	// A wrapper's exit says nothing about the process that joined.
	s.Exited(0, 1, "exited with 1", control.Will{})
	time.Sleep(10 * time.Millisecond)
	if st := s.Status()[0]; st.State != control.Joined {
		t.Errorf("%+v", st)
	}
}

func TestNeverJoinedInTime(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, JoinTimeout: 50 * time.Millisecond, Silence: time.Second})
	c, notes := join(t, s.Place(0, 1))
	notes.expect(t, "died 1.1 false never joined within 50ms")
	c.Returned(0, "", true)
	notes.expect(t, "finished")
}

// Nobody is late before the first has joined.
func TestTheFirstMayTakeItsTime(t *testing.T) {
	t.Parallel() // it waits
	s := serve(t, control.ServerConfig{Size: 2, JoinTimeout: 2 * time.Second, Silence: time.Second})
	time.Sleep(2100 * time.Millisecond)
	clients, notes := crew(t, s, 2)
	time.Sleep(200 * time.Millisecond) // a few looks for who is missing
	for _, c := range clients {
		c.Returned(0, "", true)
	}
	notes[0].expect(t, "finished")
	if notes[0].has("died") {
		t.Errorf("%q", notes[0].notes)
	}
}

// Who has not joined when a view goes on without it never will.
func TestNeverJoinedBeforeAView(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3})
	clients, notes := crew(t, s, 2)
	clients[0].Emit(view(2, [][2]uint64{{0, 1}, {1, 1}}, []int{0, 1, 0}))
	notes[0].expect(t, "died 2.1 false never joined: view 2 goes on without it")
	for _, c := range clients {
		c.Returned(2, "", false)
	}
	notes[0].expect(t, "finished")
}

// Nor does who stands in the way of a view, if those who ask have the right.
func TestNeverJoinedAndAskedFor(t *testing.T) {
	for _, quorum := range []bool{true, false} {
		t.Run(fmt.Sprint(quorum), func(t *testing.T) {
			t.Parallel() // it waits
			s := serve(t, control.ServerConfig{Size: 3, Silence: time.Second})
			clients, notes := crew(t, s, 2)
			clients[0].Fence(2, 1, "too early", proof{n: 3, suspect: 2, promised: []protocol.Rank{0, 1}}.bytes())
			time.Sleep(600 * time.Millisecond)
			asks := proof{n: 3, suspect: 2, promised: []protocol.Rank{0, 1}}
			if !quorum {
				asks.promised, asks.dead = asks.promised[:1], asks.promised[1:]
				clients[1].Close()
				notes[0].expect(t, "died 1.1 true")
			}
			for began := time.Now(); !notes[0].has("died 2.1") && time.Since(began) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
				clients[0].Fence(2, 1, "a view waits", asks.bytes()) // again: the time in which this machine stood still does not count
			}
			notes[0].expect(t, "died 2.1 false never joined: asked for by rank 0: a view waits")
		})
	}
}

// Who was asked to join and has not when the job is over is told of, too: somebody has
// to end it.
func TestNeverJoinedAJobThatIsOver(t *testing.T) {
	left := make(chan control.Event, 10)
	s := serve(t, control.ServerConfig{Size: 1, Grow: 1, Silence: 300 * time.Millisecond, Events: func(e control.Event) {
		if e.Type == control.EventLeft {
			left <- e
		}
	}})
	c, notes := join(t, s.Place(0, 1))
	c.Emit(view(1, [][2]uint64{{0, 1}}, []int{0}))
	reserve(t, s, -1)
	c.Returned(1, "", false)
	notes.expect(t, "finished")
	select {
	case e := <-left:
		if e.Rank != 1 || e.Attrs["certain"] != false || e.Attrs["how"] != "never joined: the job is over" {
			t.Errorf("%+v", e)
		}
	case <-time.After(20 * time.Second):
		t.Error("nobody is told of it")
	}
}

func TestSuspicionOfWhoIsHeardIsOnlyForTheAsker(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3})
	clients, notes := crew(t, s, 3)
	for range 2 { // a busy machine makes many silent for a while
		clients[0].Suspect(1, 1, "no answer")
	}
	notes[0].expect(t, "alive 1")
	if notes[0].has("died") {
		t.Errorf("%q", notes[0].notes)
	}
	clients[0].Suspect(1, 1, "no answer")
	notes[0].expect(t, "died 1.1 false unreachable from here")
	clients[0].Ask(2)
	clients[0].Suspect(2, 7, "another incarnation")
	clients[0].Ask(99)
	clients[1].Returned(0, "", true)
	notes[2].expect(t, "returned 1")
	if notes[2].has("died") || notes[0].has("died 2") {
		t.Errorf("%q, %q", notes[0].notes, notes[2].notes)
	}
}

func TestEventsComeInOrderToWhoAsks(t *testing.T) {
	var mu sync.Mutex
	var types []string
	s := serve(t, control.ServerConfig{Size: 1, Events: func(e control.Event) {
		mu.Lock()
		defer mu.Unlock()
		types = append(types, e.Type)
	}})
	c, r := join(t, s.Place(0, 1))
	c.Announce([]string{"0.sock"}, "here")
	c.Emit(control.Event{Type: "view", Attrs: map[string]any{"number": 3}})
	c.Emit(control.Event{Type: "too large", Attrs: map[string]any{"x": strings.Repeat("x", 1<<20)}})
	c.Returned(0, "", true)
	r.expect(t, "finished")
	c.Close()
	s.Close()
	want := []string{"job", "joined", "announced", "view", "returned", "finished", "left", "end"}
	if !slices.Equal(types, want) {
		t.Errorf("%q", types)
	}
}
