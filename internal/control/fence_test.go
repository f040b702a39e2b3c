//go:build unix

package control_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// proof is a request of rank by, in a view of n processes, to have another one killed.
type proof struct {
	wish, majority bool   // neither: as the promises have it
	view           uint64 // 0: the first
	n              int
	by, suspect    protocol.Rank
	promised, dead []protocol.Rank
}

func (p proof) bytes() []byte {
	l := membership.Letter{
		Kind: membership.Fence, Certain: p.majority || len(p.promised) > 1, Who: membership.Member{ID: p.suspect, Incarnation: 1},
		Number: max(p.view, 1), Base: membership.NewView(max(p.view, 1), membership.First(p.n, nil).Members, nil, nil), Ballot: membership.Ballot(p.by + 1), Bits: 1, Route: p.promised, Missing: p.dead,
	}
	if p.wish {
		l.Kind = membership.Wish
	}
	return membership.Message{Letter: &l, From: 1}.Append(nil)
}

func TestMajorityMayFenceWhoIsHeardOf(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3})
	c, notes := join(t, s.Place(0, 1))
	join(t, s.Place(1, 1))
	a := run(t, s, 2)
	a.lines.expect(t, "joined")
	both := []protocol.Rank{0, 1}
	c.Fence(2, 7, "another life of it", proof{n: 3, suspect: 2, promised: both}.bytes())
	c.Fence(2, 1, "no frames", proof{wish: true, n: 3, suspect: 2, promised: both[:1]}.bytes()) // three are left, and it is heard of
	notes.expect(t, "alive 2")
	if a.lines.has("end") {
		t.Fatal("it was killed without a majority")
	}
	c.Fence(2, 1, "no frames", proof{n: 3, suspect: 2, promised: both}.bytes())
	notes.expect(t, "died 2.1 true fenced: asked for by rank 0 with a majority: no frames")
	a.lines.expect(t, "end")
}

// TestOfTheLastTwoOneIsFenced: the silent one, and if both are heard of the higher
// one, whoever asks and even if both do.
func TestOfTheLastTwoOneIsFenced(t *testing.T) {
	t.Parallel()
	const silence = 3 * time.Second // the time in which this machine stood still does not count
	for name, c := range map[string]struct {
		asks [2]bool
		stop int // who is stopped, −1: nobody
		dies int
	}{
		"the lower asks":                   {[2]bool{true, false}, -1, 1},
		"the higher asks":                  {[2]bool{false, true}, -1, 1},
		"both ask":                         {[2]bool{true, true}, -1, 1},
		"the higher asks, the lower stops": {[2]bool{false, true}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, control.ServerConfig{Size: 3, Silence: silence})
			third, _ := join(t, s.Place(2, 1))
			third.Close()
			actors := make([]*actor, 2)
			for rank := range actors {
				if rank == c.stop || !c.asks[rank] {
					actors[rank] = run(t, s, rank)
					actors[rank].lines.expect(t, "joined")
				}
			}
			if c.stop >= 0 {
				actors[c.stop].signal(t, syscall.SIGSTOP)
				time.Sleep(silence * 3 / 4)
			}
			for rank := range actors {
				if actors[rank] == nil {
					actors[rank] = start(t, "fence", s.Place(rank, 1).Vars())
				}
			}
			for s.Status()[c.dies].State != control.Dead {
				time.Sleep(time.Millisecond)
				if s.Status()[1-c.dies].State == control.Dead {
					t.Fatalf("rank %d died", 1-c.dies)
				}
			}
			st := s.Status()[c.dies]
			t.Log(st.How)
			if !st.Certain {
				t.Errorf("%+v", st)
			}
			time.Sleep(50 * time.Millisecond)
			if s.Status()[1-c.dies].State == control.Dead {
				t.Error("both died")
			}
		})
	}
}

// TestTwoAreNotFencedByEachOther: whoever asks first is served, and nobody else as
// long as that death is on its way.
func TestTwoAreNotFencedByEachOther(t *testing.T) {
	killed := make(chan int, 10)
	s := serve(t, control.ServerConfig{
		Size: 2, TCP: "127.0.0.1:0",
		Kill: func(f control.Fence) { killed <- f.Rank },
	})
	var clients []*control.Client
	var notes []*recorder
	for rank := range 2 {
		p := s.Place(rank, 1)
		p.Coordinator, p.Dir = control.TCPAddress(s), elsewhere(t)
		c, r := join(t, p)
		clients, notes = append(clients, c), append(notes, r)
	}
	for range 2 {
		for _, rank := range []protocol.Rank{1, 0, 1} {
			clients[rank].Fence(int(1-rank), 1, "no frames", proof{n: 2, by: rank, suspect: 1 - rank, promised: []protocol.Rank{rank}}.bytes())
		}
	}
	for _, c := range clients { // after this, all was heard
		c.Emit(control.Event{Type: "said"})
	}
	said := 0
	for e := range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		if e.Type == "said" {
			said++
		}
		if said == len(clients) {
			break
		}
	}
	if len(killed) != 1 {
		t.Errorf("%d were killed; noted %q, %q", len(killed), notes[0].notes, notes[1].notes)
	}
}

// TestAgentFencesOnItsHost: the launcher has it killed, and its end is certain when
// the agent tells; if the agent cannot, the suspect is given up.
func TestAgentFencesOnItsHost(t *testing.T) {
	t.Parallel()
	for _, reached := range []bool{true, false} {
		var s *control.Server
		s = serve(t, control.ServerConfig{
			Size: 3, TCP: "127.0.0.1:0", Silence: 300 * time.Millisecond,
			Kill: func(f control.Fence) {
				if reached {
					go s.Exited(f.Rank, f.Incarnation, "killed by SIGKILL", control.Will{Record: []byte("kept")})
				}
			},
		})
		c, notes := join(t, s.Place(0, 1))
		p := s.Place(1, 1)
		p.Coordinator, p.Dir = control.TCPAddress(s), elsewhere(t)
		s.Started(1, 1, syscall.Getpid())
		there, _ := join(t, p)
		there.Announce(nil, "there")
		notes.awaitPeers(t, 1)
		c.Fence(1, 1, "no frames", proof{n: 3, suspect: 1, promised: []protocol.Rank{0, 2}}.bytes())
		if reached {
			notes.expect(t, "died 1.1 true fenced: asked for by rank 0 with a majority: no frames")
			notes.expect(t, "record 1.1 4 bytes")
		} else {
			notes.expect(t, "died 1.1 false fenced, but not gone: asked for by rank 0 with a majority: no frames")
		}
	}
}

// TestAMinorityHasNobodyKilled: rank 0 and the coordinator are cut off, so to speak, from the agent's host, and rank 0 asks with what it has.
// The coordinator sends no order, rank 0 learns why, and the suspect stays.
func TestAMinorityHasNobodyKilled(t *testing.T) {
	t.Parallel()
	killed, spared := make(chan int, 10), make(chan control.Event, 10)
	s := serve(t, control.ServerConfig{
		Size: 5, TCP: "127.0.0.1:0", Silence: 300 * time.Millisecond,
		Kill: func(f control.Fence) { killed <- f.Rank },
		Events: func(e control.Event) {
			if e.Type == control.EventSpared {
				spared <- e
			}
		},
	})
	var log lines
	c, _ := joinLogging(t, s.Place(0, 1), &log)
	c.Emit(view(3, [][2]uint64{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}, []int{0, 1, 2, 3, 4}))
	p := s.Place(4, 1)
	p.Coordinator, p.Dir = control.TCPAddress(s), elsewhere(t)
	join(t, p)
	for name, asks := range map[string]struct {
		incarnation uint64
		proof       []byte
		why         string
	}{
		"a minority":           {1, proof{view: 3, n: 5, suspect: 4, promised: []protocol.Rank{0, 1}}.bytes(), "2 of the 5 members"},
		"not the last two":     {1, proof{view: 3, n: 5, suspect: 4, promised: []protocol.Rank{0}}.bytes(), "5 members"},
		"an earlier view":      {1, proof{view: 2, n: 5, suspect: 4, promised: []protocol.Rank{0, 1, 2}}.bytes(), "out of date"},
		"another's promises":   {1, proof{view: 3, n: 5, by: 1, suspect: 4, promised: []protocol.Rank{0, 1, 2}}.bytes(), "is not one of 0"},
		"another incarnation":  {2, proof{view: 3, n: 5, suspect: 4, promised: []protocol.Rank{0, 1, 2}}.bytes(), "has no member 4.2"},
		"no proof":             {1, nil, "not a membership letter"},
		"a letter of any kind": {1, membership.Message{Letter: membership.Removal(membership.First(5, nil))}.Append(nil), "no request"},
	} {
		c.Fence(4, asks.incarnation, name, asks.proof)
		select {
		case e := <-spared:
			if why, _ := e.Attrs["why"].(string); e.Rank != 4 || !strings.Contains(why, asks.why) {
				t.Errorf("%s: %+v, want %q", name, e, asks.why)
			}
		case <-time.After(patience):
			t.Fatalf("%s: nothing is refused", name)
		}
		log.await(t, asks.why)
	}
	if st := s.Status()[4]; len(killed) > 0 || st.State == control.Dead {
		t.Errorf("%d orders, %+v", len(killed), st)
	}
}

// TestARefusalOfTheAgentIsTold: the process is not taken for dead, and may be asked for again.
func TestARefusalOfTheAgentIsTold(t *testing.T) {
	t.Parallel()
	const silence = 300 * time.Millisecond
	orders := make(chan control.Fence, 10)
	var s *control.Server
	s = serve(t, control.ServerConfig{
		Size: 3, TCP: "127.0.0.1:0", Silence: silence,
		Kill: func(f control.Fence) {
			orders <- f
			go s.Spared(f.Rank, f.Incarnation, "a test")
		},
	})
	var log lines
	c, notes := joinLogging(t, s.Place(0, 1), &log)
	p := s.Place(1, 1)
	p.Coordinator, p.Dir = control.TCPAddress(s), elsewhere(t)
	join(t, p)
	ask := proof{n: 3, suspect: 1, promised: []protocol.Rank{0, 2}}.bytes()
	for range 2 {
		c.Fence(1, 1, "no frames", ask)
		if f := <-orders; f.Rank != 1 || f.Incarnation != 1 || len(f.Proof) == 0 || f.Check(t.TempDir()) != nil {
			t.Errorf("ordered %+v", f)
		}
		log.await(t, "a test")
		log.clear()
	}
	time.Sleep(2 * silence)
	if notes.has("died 1.1") {
		t.Errorf("%q", notes.notes)
	}
}

// TestWhoWasGivenUpOnAndRemovedIsKilled: a process that has joined and stands still before it announces itself is taken for dead, of which
// nothing is certain. Its agent kills it when a view has removed it, and not before: until then no order would prove anything.
func TestWhoWasGivenUpOnAndRemovedIsKilled(t *testing.T) {
	t.Parallel()
	orders := make(chan control.Fence, 10)
	s := serve(t, control.ServerConfig{
		Size: 3, TCP: "127.0.0.1:0", Silence: 300 * time.Millisecond, JoinTimeout: time.Second,
		Kill: func(f control.Fence) { orders <- f },
	})
	c, notes := join(t, s.Place(0, 1))
	join(t, s.Place(1, 1))
	still, err := control.Shake(t.Context(), control.TCPAddress(s), s.Place(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer still.Close()
	notes.expect(t, "died 2.1 false has not announced itself")
	if len(orders) > 0 {
		t.Fatalf("ordered %+v before a view had removed it", <-orders)
	}
	c.Emit(view(2, [][2]uint64{{0, 1}, {1, 1}}, []int{0, 1, 0}))
	there := t.TempDir() // of the agent's host
	record, err := control.OpenRecord(there, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	select {
	case f := <-orders:
		if err := f.Check(there); f.Rank != 2 || f.Incarnation != 1 || err != nil {
			t.Errorf("ordered %+v, which the agent refuses: %v", f, err)
		}
	case <-time.After(patience):
		t.Error("it still runs")
	}
}

// TestAnAgentChecksOrders: against the job's directory on its host.
func TestAnAgentChecksOrders(t *testing.T) {
	dir := t.TempDir()
	order := func(incarnation uint64, proof []byte) control.Fence {
		return control.Fence{Rank: 1, Incarnation: incarnation, Proof: proof}
	}
	check := func(what string, f control.Fence, why string) {
		t.Helper()
		if err := f.Check(dir); why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %v, want %q", what, err, why)
		}
	}
	majority := proof{n: 3, suspect: 1, promised: []protocol.Rank{0, 2}}.bytes()
	check("it has not joined", order(1, nil), "")
	record, err := control.OpenRecord(dir, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	check("it has joined", order(1, nil), "the order carries no proof")
	check("another has joined", order(2, nil), "")
	check("a majority", order(1, majority), "")
	check("a minority", order(1, proof{n: 3, majority: true, suspect: 1, promised: []protocol.Rank{0}}.bytes()), "no majority")
	check("no letter", order(1, []byte("forged")), "not a membership letter")
	check("another incarnation", order(2, majority), "has no member 1.2")
	second := membership.First(3, nil).Without(func(m membership.Member) bool { return m.ID == 2 }, false)
	third := second.Without(func(m membership.Member) bool { return m.ID == 0 }, false)
	accepted := membership.Letter{Kind: membership.Record, Number: 2, Base: second, Value: third, Ballot: 1}
	if err := record.Write(membership.Message{Letter: &accepted, From: 1}.Append(nil)); err != nil {
		t.Fatal(err)
	}
	check("it has accepted a view after a later one", order(1, majority), "view 2 is chosen")
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) await(t *testing.T, part string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if strings.Contains(text, part) {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("%q is not in the log %q", part, text)
		}
	}
}

func (l *lines) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}
