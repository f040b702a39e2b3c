//go:build unix

package control_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

func TestMajorityMayFenceWhoIsHeardOf(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3})
	c, notes := join(t, s.Place(0, 1))
	join(t, s.Place(1, 1))
	a := run(t, s, 2)
	a.lines.expect(t, "joined")
	c.Fence(2, 7, "another life of it", true)
	c.Fence(2, 1, "no frames", false) // three are left, and it is heard of
	notes.expect(t, "alive 2")
	if a.lines.has("end") {
		t.Fatal("it was killed without a majority")
	}
	c.Fence(2, 1, "no frames", true)
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
		Kill: func(rank int, _ uint64, _ string) { killed <- rank },
	})
	var clients []*control.Client
	var notes []*recorder
	for rank := range 2 {
		p := s.Place(rank, 1)
		p.Coordinator, p.Dir = control.TCPAddress(s), elsewhere(t)
		c, r := join(t, p)
		clients, notes = append(clients, c), append(notes, r)
	}
	for _, quorum := range []bool{true, false} {
		clients[1].Fence(0, 1, "no frames", quorum)
		clients[0].Fence(1, 1, "no frames", quorum)
		clients[1].Fence(0, 1, "no frames", quorum)
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
			Size: 2, TCP: "127.0.0.1:0", Silence: 300 * time.Millisecond,
			Kill: func(rank int, incarnation uint64, why string) {
				if reached {
					go s.Exited(rank, incarnation, "killed by SIGKILL", control.Will{Record: []byte("kept")})
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
		c.Fence(1, 1, "no frames", true)
		if reached {
			notes.expect(t, "died 1.1 true fenced: asked for by rank 0 with a majority: no frames")
			notes.expect(t, "record 1.1 4 bytes")
		} else {
			notes.expect(t, "died 1.1 false fenced, but not gone: asked for by rank 0 with a majority: no frames")
		}
	}
}
