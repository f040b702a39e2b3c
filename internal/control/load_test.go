//go:build unix

package control_test

import (
	"slices"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// awaitRoom waits until the coordinator has heard what makes the room so.
func awaitRoom(t *testing.T, s *control.Server, what string, want control.Room) {
	t.Helper()
	for began := time.Now(); s.Room() != want; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%s: %+v, want %+v", what, s.Room(), want)
		}
	}
}

func TestRoomIsThatOfThoseWhoLive(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3, Grow: 1})
	clients, notes := crew(t, s, 3)
	const plenty = 1 << 30
	awaitRoom(t, s, "nobody has told", control.Room{Free: plenty})
	clients[0].Load(1, 100)
	clients[1].Load(3, 300)
	awaitRoom(t, s, "one has not told", control.Room{Free: plenty, Each: 300})
	clients[2].Load(1, 50)
	awaitRoom(t, s, "all have", control.Room{Known: true, Free: 2, Each: 300})
	clients[1].Load(1, 900)
	awaitRoom(t, s, "one has less room", control.Room{Known: true, Each: 900})
	clients[0].Load(0, 100)
	clients[2].Load(2, 50)
	awaitRoom(t, s, "one has too many", control.Room{Known: true, Free: 1, Each: 900})
	clients[1].Close()
	notes[0].expect(t, "died 1.1")
	awaitRoom(t, s, "one is dead", control.Room{Known: true, Free: 1, Orphans: 1, Each: 100})
	clients[0].Emit(view(2, [][2]uint64{{0, 1}, {2, 1}}, []int{0, -1, 2}))
	awaitRoom(t, s, "nobody owns its task", control.Room{Known: true, Free: 1, Orphans: 1, Each: 100})
	clients[0].Emit(view(3, [][2]uint64{{0, 1}, {2, 1}}, []int{0, 2, 2}))
	awaitRoom(t, s, "it was taken over", control.Room{Known: true, Each: 100})
	join(t, reserve(t, s, -1))
	clients[0].Emit(view(4, [][2]uint64{{0, 1}, {2, 1}, {3, 1}}, []int{0, 2, 2}))
	awaitRoom(t, s, "who has no task has room", control.Room{Known: true, Free: plenty, Each: 100})
	clients[2].Break()
	clients[2].Load(5, 70)
	clients[0].Emit(view(5, [][2]uint64{{0, 1}, {2, 1}}, []int{0, 2, 2}))
	awaitRoom(t, s, "told on a broken connection", control.Room{Known: true, Free: 3, Each: 100})
}

// TestTheDeadAreRevived: the launcher needs no leave to grow for it, but the end of the
// life before must be beyond doubt.
func TestTheDeadAreRevived(t *testing.T) {
	t.Parallel() // it waits
	s := serve(t, control.ServerConfig{Size: 3, JoinTimeout: 2 * time.Second})
	clients, notes := crew(t, s, 2)
	departed := func(when string, want ...control.Identity) {
		t.Helper()
		var got []control.Identity
		for rank := range 4 {
			for life := range uint64(3) {
				if s.Departed(rank, life+1) {
					got = append(got, control.Identity{uint64(rank), life + 1})
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: departed %v, want %v", when, got, want)
		}
	}
	for rank, want := range map[int]string{1: "rank 1 is alive; allowed: a dead one, and none is", 3: "there is no rank 3; allowed: a dead one, and none is"} {
		if p, err := s.Revive(rank); err == nil || err.Error() != want {
			t.Errorf("revive(%d): %v, %v; want %s", rank, p, err, want)
		}
	}
	departed("all live")
	notes[0].expect(t, "died 2.1 false") // it never came: who knows
	departed("one is missing")
	clients[1].Close()
	notes[0].expect(t, "died 1.1 true")
	one, two := control.Identity{1, 1}, control.Identity{2, 1}
	departed("one is dead", one)
	clients[0].Emit(view(2, [][2]uint64{{0, 1}}, []int{0, 0, 0}))
	for began := time.Now(); s.View() == nil && time.Since(began) < patience; time.Sleep(time.Millisecond) {
	}
	departed("a view goes on without both", one, two)
	places, err := s.Revive(1)
	if err != nil || places[0].Rank != 1 || places[0].Incarnation != 2 {
		t.Fatalf("%+v, %v", places, err)
	}
	again, _ := join(t, places[0])
	departed("one is back", one, two)
	again.Returned(1, "", false)
	notes[0].expect(t, "returned 1.2") // not what its first life had to do
	if _, err := s.Reserve(1, -1); err == nil {
		t.Error("the job has grown")
	}
}
