//go:build unix

package control_test

import (
	"context"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// slow is a handler that hears nothing from when a peer has returned until it is let go.
type slow struct {
	*recorder
	on chan struct{}
}

func (s slow) PeersReturned(ranks []int, incarnation uint64, failure string) {
	s.recorder.PeersReturned(ranks, incarnation, failure)
	<-s.on
}

// A coordinator that is part of a process lets nobody leave before all who live know that the job is over: otherwise nobody who
// is left could tell the next one.
func TestNobodyLeavesBeforeAllKnow(t *testing.T) {
	dir, err := control.MakeDir(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	s := control.ServeInside(t, control.ServerConfig{Dir: dir, Size: 3, Silence: patience})
	var clients []*control.Client
	var heard []*recorder
	last := slow{newRecorder(), make(chan struct{})}
	for rank := range 3 {
		var h control.Handler = last
		if rank < 2 {
			heard = append(heard, newRecorder())
			h = heard[rank]
		}
		c, _, err := control.Join(context.Background(), s.Place(rank, 1), h, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		clients = append(clients, c)
	}
	for _, c := range clients {
		c.Announce(nil, "here")
	}
	clients[0].Returned(1, "", false)
	last.expect(t, "returned 0")
	clients[1].Returned(1, "", false)
	clients[2].Returned(1, "", false)
	for clients[0].Over() == 0 || clients[1].Over() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	if heard[0].has("finished") || heard[1].has("finished") {
		t.Error("processes may leave though one does not know that the job is over")
	}
	if clients[0].Sure() != 0 || clients[1].Sure() != 0 {
		t.Error("processes would end well by themselves though one does not know that the job is over, and runs their tasks again")
	}
	close(last.on)
	for i, r := range append(heard, last.recorder) {
		if r.expect(t, "finished"); !r.known.Load() {
			t.Errorf("process %d was not told that all know", i)
		}
		if clients[i].Sure() != 1 {
			t.Errorf("process %d may leave, and does not know that all know: sure of view %d", i, clients[i].Sure())
		}
	}
}

// A process that has come, and that no view which is known has let in, must know, too: if it survived the others, it would run
// all tasks again.
func TestNobodyLeavesBeforeWhoJoinsKnows(t *testing.T) {
	dir, err := control.MakeDir(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	s := control.ServeInside(t, control.ServerConfig{Dir: dir, Size: 2, Grow: 2, Silence: patience})
	var clients []*control.Client
	var heard []*recorder
	for rank := range 2 {
		c, r := join(t, s.Place(rank, 1))
		clients, heard = append(clients, c), append(heard, r)
	}
	places, err := s.Reserve(1, -1)
	if err != nil {
		t.Fatal(err)
	}
	late := slow{newRecorder(), make(chan struct{})}
	joiner, _, err := control.Join(context.Background(), places[0], late, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(joiner.Close)
	for _, c := range append(clients, joiner) {
		c.Announce(nil, "here")
	}
	clients[0].Returned(1, "", false)
	late.expect(t, "returned 0")
	clients[1].Returned(1, "", false)
	for clients[0].Over() == 0 || clients[1].Over() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	if heard[0].has("finished") || heard[1].has("finished") {
		t.Error("processes may leave though one that joins does not know that the job is over")
	}
	if places, err = s.Reserve(1, -1); err != nil {
		t.Fatal(err)
	}
	later, r := join(t, places[0]) // who comes now is told before anything else
	for end := time.Now().Add(5 * time.Second); later.Over() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("one that comes when the job is over is not told")
			break
		}
	}
	close(late.on)
	for _, r := range append(heard, late.recorder, r) {
		r.expect(t, "finished")
	}
}

// Who knows that the job is over tells the next coordinator, which need not hear of any return.
func TestTheNextCoordinatorLearnsThatTheJobIsOver(t *testing.T) {
	dir, err := control.MakeDir(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	s := control.ServeInside(t, control.ServerConfig{Dir: dir, Size: 2, Silence: patience})
	var heard []*recorder
	var clients []*control.Client
	for rank := range 2 {
		c, r := join(t, s.Place(rank, 1))
		clients, heard = append(clients, c), append(heard, r)
	}
	for _, c := range clients {
		c.Announce(nil, "here")
	}
	heard[0].awaitPeers(t, 2)
	clients[1].KnowOver(3)
	for _, r := range heard {
		r.expect(t, "finished")
		if got := r.ended.Load(); got != 3 {
			t.Errorf("finished in view %d, want 3", got)
		}
	}
}
