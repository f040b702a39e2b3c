//go:build unix

package control_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/control"
)

func view(number int, members [][2]uint64, owners []int) control.Event {
	return control.Event{Type: control.EventView, Attrs: map[string]any{
		"number": number, "members": members, "owners": owners, "opened": true,
	}}
}

// TestViewIsToldOnceAndKept: every member tells of a view it opens; the stream has
// it once, and a newcomer sees the latest.
func TestViewIsToldOnceAndKept(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3})
	clients, _ := crew(t, s, 3)
	two := view(2, [][2]uint64{{0, 1}, {2, 1}}, []int{0, 0, 2})
	three := view(3, [][2]uint64{{0, 1}}, []int{0, 0, 0})
	for _, c := range clients {
		c.Emit(two)
		c.Emit(three)
		c.Emit(two) // late
		c.Emit(control.Event{Type: "tick"})
	}
	closed := view(9, [][2]uint64{{0, 1}}, nil)
	closed.Attrs["opened"] = false
	clients[0].Emit(closed)
	clients[0].Emit(control.Event{Type: "done"})
	var views []string
	ticks, done := 0, false
	for e, err := range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case control.EventView:
			views = append(views, fmt.Sprint(e.Attrs["number"]))
		case "tick":
			ticks++
		case "done":
			done = true
		}
		if ticks == 3 && done {
			break
		}
	}
	if !slices.Equal(views, []string{"2", "3", "9"}) {
		t.Errorf("views %q", views)
	}
	for e := range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		if e.Type != control.EventStatus {
			continue
		}
		raw, _ := json.Marshal(e.Attrs["view"])
		if want := `{"members":[[0,1]],"number":3,"owners":[0,0,0]}`; string(raw) != want {
			t.Errorf("%s, want %s", raw, want)
		}
		break
	}
}

// TestTheFirstViewIsKept: also if it is told after later ones.
func TestTheFirstViewIsKept(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2})
	clients, _ := crew(t, s, 2)
	if v := s.First(); v != nil {
		t.Errorf("%+v, of which nobody has told", v)
	}
	all := [][2]uint64{{0, 1}, {1, 1}}
	clients[0].Emit(view(2, all, []int{0, 0, 0}))
	clients[0].Emit(view(1, all, []int{0, 0, 1}))
	clients[0].Emit(view(3, all, []int{1, 1, 1}))
	clients[0].Emit(control.Event{Type: "done"})
	for e, err := range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "done" {
			break
		}
	}
	if v := s.First(); v == nil || !slices.Equal(v.Owners, []int{0, 0, 1}) {
		t.Errorf("%+v", v)
	}
	if v := s.View(); v.Number != 3 {
		t.Errorf("%+v", v)
	}
}

// TestLargeViewsPass: one of 4096 processes does, an ordinary event of that size
// does not.
func TestLargeViewsPass(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 1})
	c, _ := join(t, s.Place(0, 1))
	members, owners := make([][2]uint64, 4096), make([]int, 4096)
	for i := range members {
		members[i], owners[i] = [2]uint64{uint64(i), 1000}, i
	}
	large := view(2, members, owners)
	c.Emit(large)
	large.Type = "other"
	c.Emit(large)
	c.Emit(control.Event{Type: "done"})
	seen := 0
	for e, err := range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Type == control.EventView:
			seen++
		case e.Type == "other":
			t.Error("an event that is too large passed")
		}
		if e.Type == "done" {
			break
		}
	}
	if seen != 1 {
		t.Errorf("%d views", seen)
	}
}

func TestTasksOfAView(t *testing.T) {
	v := control.ParseView([]byte(`{"type":"view","number":4,"members":[[0,1],[2,3]],"owners":[0,2,-1,2],"opened":true}`))
	for _, c := range []struct {
		rank        int
		incarnation uint64
		want        []int
	}{{0, 1, []int{0}}, {2, 3, []int{1, 3}}, {2, 1, nil}, {1, 1, nil}, {-1, 1, nil}} {
		if got := v.Tasks(c.rank, c.incarnation); !slices.Equal(got, c.want) {
			t.Errorf("tasks of %d.%d: %v, want %v", c.rank, c.incarnation, got, c.want)
		}
	}
	var none *control.View
	if none.Has(0, 1) || none.Tasks(0, 1) != nil {
		t.Error("no view has members")
	}
	if got := fmt.Sprint(v.Members); got != "[0 2.3]" {
		t.Error(got)
	}
	for _, text := range []string{`{"number":4,"members":[[0,1]]}`, `{"number":4,"opened":true}`, `{"number":"x"}`, ``} {
		if v := control.ParseView([]byte(text)); v != nil {
			t.Errorf("%s: %+v", text, v)
		}
	}
}
